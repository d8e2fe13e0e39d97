"use strict";
/* The token after the # becomes a cookie; then the page that was wanted is loaded without it. */
(async () => {
  const why = document.getElementById("why");
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) {
    history.replaceState(null, "", location.pathname + location.search);
    const answer = await fetch("/session", { method: "POST", body: token, headers: { "X-Mydyno": "1" } });
    if (answer.ok) location.reload();
    else why.textContent = "This token is not that of the running server: it is new each time the server starts. Open the URL that was printed last.";
    return;
  }
  /* After a link from another site the first request carries no cookie (SameSite=Strict); this one does. */
  if ((await fetch("/session")).ok) location.reload();
})();
