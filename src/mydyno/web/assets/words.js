"use strict";
/* Messages of the scripts in the language of the page: tr("{count} runs", { count: 3 }). English is in the scripts. */
const words = JSON.parse(document.getElementById("words")?.textContent ?? "{}");
const tr = (message, values = {}) => (words[message] ?? message).replace(/\{(\w+)\}/g, (_, name) => values[name]);
