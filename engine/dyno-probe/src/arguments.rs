//! The command line, and its translation into what is watched.

#![allow(rustdoc::broken_intra_doc_links)] // Doc comments here are help texts, with brackets for what is optional.

use std::path::{Path, PathBuf};

use clap::Parser;
use dyno_mysql::{Endpoint, Options, Secret, TlsContext, TlsField, TlsMode, TlsOptions};

use crate::machine::{Disk, Interface, Machine, Process, Role, ELSEWHERE};

/// The sampler of mydyno: reads host, processes and MySQL or MariaDB servers at a steady interval and writes JSON
/// lines.
///
/// It ends at SIGTERM or SIGINT, or when its standard input closes. Commands on standard input:
/// 'driver ID PID', 'driver ID -', 'mark TEXT', 'speed ID', 'sample [NS]', 'stop'.
#[derive(Debug, Parser)]
#[command(name = "dynoprobe", version)]
pub struct Arguments {
    /// Milliseconds between samples; 0 takes a sample at each 'sample' on standard input
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    pub interval_ms: u64,
    /// File to write, or - for standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub output: String,
    /// Where /proc is
    #[arg(long, value_name = "FOLDER", default_value = "/proc")]
    pub proc_root: PathBuf,
    /// Where /sys is
    #[arg(long, value_name = "FOLDER", default_value = "/sys")]
    pub sys_root: PathBuf,
    /// A server: ID:PID (or ID:- for one on another host)[,socket=PATH | ,host=NAME,port=N | ,dump=FOLDER][,user=NAME][,password-file=FILE][,ssl-mode=MODE][,ssl-ca=FILE][,ssl-cert=FILE][,ssl-key=FILE] as in MySQL's clients, by default disabled; repeatable; a comma or backslash in a value is preceded by a backslash
    #[arg(long = "instance", value_name = "ID:PID…", value_parser = parse_instance)]
    pub instances: Vec<Instance>,
    /// A load program; repeatable
    #[arg(long = "driver", value_name = "ID:PID", value_parser = parse_driver)]
    pub drivers: Vec<Process>,
    /// A disk: a device, or a path on it; repeatable
    #[arg(long = "disk", value_name = "DEVICE|PATH")]
    pub disks: Vec<String>,
    /// A network interface, with @PID in that process' network namespace; repeatable; default: all
    #[arg(long = "network", value_name = "INTERFACE[@PID]", value_parser = parse_interface)]
    pub interfaces: Vec<Interface>,
    /// Run a small fixed unit of work on every CPU every 32 ms, and report the CPU time that it takes
    #[arg(long)]
    pub speed_meter: bool,
    /// Write one sample, taken one interval after a first reading, and end
    #[arg(long)]
    pub once: bool,
    /// End when all servers have ended
    #[arg(long)]
    pub until_instances_end: bool,
    /// List the metric families and end
    #[arg(long)]
    pub list_families: bool,
    /// Print every metric with its unit, meaning and source as JSON, and end
    #[arg(long)]
    pub metrics_json: bool,
}

/// How a server's status is had.
#[derive(Debug, Clone)]
pub enum Access {
    /// Its status is not read.
    None,
    /// By connecting.
    Connect(Box<Options>),
    /// From saved answers.
    Dump(PathBuf),
}

/// A watched server.
#[derive(Debug, Clone)]
pub struct Instance {
    /// The process.
    pub process: Process,
    /// Its status.
    pub access: Access,
}

impl Arguments {
    /// The host with the chosen disks and interfaces.
    ///
    /// # Errors
    /// Which argument is wrong and why.
    pub fn machine(&self) -> Result<Machine, String> {
        if self.once && self.interval_ms == 0 {
            return Err("--once needs an interval: --interval-ms 0 waits for commands".into());
        }
        if self.until_instances_end && self.instances.is_empty() {
            return Err("--until-instances-end needs an --instance to wait for".into());
        }
        let mut machine = Machine::new(self.proc_root.clone(), self.sys_root.clone());
        machine.disks = self
            .disks
            .iter()
            .map(|argument| Disk::find(argument, &machine))
            .collect();
        if let Ok(disks) = &mut machine.disks {
            disks.sort_unstable_by(|one, other| one.name.cmp(&other.name));
            disks.dedup();
        }
        machine.interfaces.clone_from(&self.interfaces);
        let scopes = self
            .interfaces
            .iter()
            .map(|interface| format!("--network {}", interface.name));
        let scopes = scopes.chain(
            self.instances
                .iter()
                .map(|instance| format!("--instance {}", instance.process.id)),
        );
        let scopes = scopes.chain(self.drivers.iter().map(|driver| format!("--driver {}", driver.id)));
        let mut scopes: Vec<_> = scopes.collect();
        scopes.sort_unstable();
        match scopes.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(format!("{} is given twice; each needs a name of its own", pair[0])),
            None => Ok(machine),
        }
    }
}

fn parse_process(text: &str, role: Role) -> Result<Process, String> {
    let wrong = || format!("'{text}' is not ID:PID");
    let (id, pid) = text.split_once(':').ok_or_else(wrong)?;
    if id.is_empty() {
        return Err(wrong());
    }
    Ok(Process {
        role,
        id: id.to_owned(),
        pid: match (pid, role) {
            ("-", Role::Server) => ELSEWHERE,
            _ => pid.parse().ok().filter(|pid| *pid != ELSEWHERE).ok_or_else(wrong)?,
        },
    })
}

fn parse_driver(text: &str) -> Result<Process, String> {
    parse_process(text, Role::Driver)
}

fn parse_interface(text: &str) -> Result<Interface, String> {
    let Some((name, pid)) = text.split_once('@') else {
        return Ok(Interface {
            name: text.to_owned(),
            pid: None,
        });
    };
    let pid = pid.parse().map_err(|_| format!("'{text}' is not INTERFACE@PID"))?;
    Ok(Interface {
        name: name.to_owned(),
        pid: Some(pid),
    })
}

fn parse_instance(text: &str) -> Result<Instance, String> {
    let parts = split_at_commas(text);
    let (first, parts) = parts.split_first().ok_or("ID:PID is missing")?;
    let process = parse_process(first, Role::Server)?;
    let (mut socket, mut host, mut port, mut dump) = (None, None, None, None);
    let (mut user, mut password) = (None, None);
    let mut tls = TlsOptions {
        session_resumption: true,
        ..TlsOptions::default()
    };
    for part in parts {
        let (key, value) = part
            .split_once('=')
            .ok_or_else(|| format!("'{part}' is not key=value"))?;
        match key {
            "socket" => socket = Some(value),
            "host" => host = Some(value),
            "port" => port = Some(value.parse().map_err(|_| format!("port={value}: not a port number"))?),
            "dump" => dump = Some(value),
            "user" => user = Some(value),
            "password-file" => {
                let read = Secret::first_line(Path::new(value));
                password = Some(read.map_err(|error| format!("{part}: {error}"))?);
            }
            "ssl-mode" => tls.mode = TlsMode::from_name(value).map_err(|error| tls_option(&error))?,
            "ssl-ca" => tls.ca_file = Some(value.into()),
            "ssl-cert" => tls.certificate_file = Some(value.into()),
            "ssl-key" => tls.key_file = Some(value.into()),
            _ => {
                return Err(format!(
                    "unknown key '{key}'; known are socket, host, port, dump, user, password-file, ssl-mode, ssl-ca, \
                     ssl-cert, ssl-key"
                ))
            }
        }
    }
    let endpoint = match (socket, host, port, dump) {
        (None, None, None, Some(folder)) => {
            return Ok(Instance {
                process,
                access: Access::Dump(folder.into()),
            })
        }
        (None, None, None, None) => {
            return Ok(Instance {
                process,
                access: Access::None,
            })
        }
        (Some(path), None, None, None) => Endpoint::unix(path),
        (None, Some(host), port, None) => Endpoint::tcp(host, port.unwrap_or(3306)),
        _ => return Err("give one of socket=PATH, host=NAME[,port=N], dump=FOLDER".into()),
    };
    let mut options = Options::new(endpoint, user.unwrap_or("root"));
    options.password = password.unwrap_or_default();
    options.tls = TlsContext::new(&tls).map_err(|error| tls_option(&error))?;
    // Who lets TLS be left out trusts the network with more than the password.
    options.allow_public_key_retrieval = tls.mode == TlsMode::Preferred;
    options.program_name = "dynoprobe".into();
    Ok(Instance {
        process,
        access: Access::Connect(Box::new(options)),
    })
}

/// The parts between commas; after a backslash the next character belongs to its part.
fn split_at_commas(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut characters = text.chars();
    while let Some(mut character) = characters.next() {
        if character == ',' {
            parts.push(String::new());
            continue;
        }
        if character == '\\' {
            character = characters.next().unwrap_or(character);
        }
        if let Some(part) = parts.last_mut() {
            part.push(character);
        }
    }
    parts
}

/// An error about TLS, with the names of the keys.
fn tls_option(error: &dyno_mysql::Error) -> String {
    let dyno_mysql::Error::TlsOption { field, problem } = error else {
        return error.to_string();
    };
    match field {
        TlsField::Mode => format!("ssl-mode: {problem}"),
        TlsField::MissingAuthority => "ssl-mode=verify_… needs ssl-ca=FILE".into(),
        TlsField::Authority => format!("ssl-ca: {problem}"),
        TlsField::Certificate => format!("ssl-cert: {problem}"),
        TlsField::Key => format!("ssl-key: {problem}"),
        TlsField::OneOfPair => "ssl-cert and ssl-key belong together".into(),
        TlsField::Versions | TlsField::CipherSuites => problem.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_elsewhere_has_no_process_here() {
        assert_eq!(parse_instance("1:-,host=db,port=3306").unwrap().process.pid, ELSEWHERE);
        assert!(parse_instance("1:0").is_err());
        assert!(parse_driver("1:-").is_err());
    }

    #[test]
    fn an_instance_is_a_process_and_a_way_to_its_status() {
        let instance = parse_instance("1:77,socket=/run/s.sock,user=dyno").unwrap();
        assert_eq!((instance.process.id.as_str(), instance.process.pid), ("1", 77));
        assert!(matches!(instance.access, Access::Connect(options) if options.user == "dyno"));
        assert!(matches!(parse_instance("a:1").unwrap().access, Access::None));
        assert!(matches!(parse_instance("a:1,dump=/d").unwrap().access, Access::Dump(_)));
    }

    #[test]
    fn a_comma_in_a_value_is_preceded_by_a_backslash() {
        let instance = parse_instance(r"1:7,socket=/tmp/a\,b\\c/s.sock,user=x\,y").unwrap();
        let Access::Connect(options) = instance.access else {
            panic!("no connection")
        };
        assert_eq!(options.user, "x,y");
        assert!(format!("{:?}", options.endpoint).contains("/tmp/a,b"));
    }

    #[test]
    fn a_mistake_in_an_instance_says_what_is_allowed() {
        assert!(parse_instance("77").unwrap_err().contains("ID:PID"));
        assert!(parse_instance("1:77,sock=/s")
            .unwrap_err()
            .contains("socket, host, port"));
        assert!(parse_instance("1:77,socket=/s,host=h").unwrap_err().contains("one of"));
        assert!(parse_instance("1:77,password-file=/no/such/file")
            .unwrap_err()
            .contains("/no/such/file"));
    }

    #[test]
    fn tls_is_had_by_the_keys_of_mysqls_clients() {
        let mode = |text: &str| match parse_instance(text).unwrap().access {
            Access::Connect(options) => options.tls.as_ref().map(|tls| tls.mode()),
            _ => None,
        };
        assert_eq!(mode("1:-,host=db"), None);
        assert_eq!(mode("1:-,host=db,ssl-mode=disabled"), None);
        assert_eq!(mode("1:-,host=db,ssl-mode=preferred"), Some(TlsMode::Preferred));
        assert_eq!(mode("1:-,ssl-mode=REQUIRED,host=db"), Some(TlsMode::Required));
        for (keys, words) in [
            ("ssl-mode=on", "ssl-mode: TLS mode 'on' is not known"),
            ("ssl-mode=verify-ca", "needs ssl-ca=FILE"),
            (
                "ssl-mode=verify-ca,ssl-ca=/no/such/file",
                "ssl-ca: PEM file /no/such/file",
            ),
            ("ssl-mode=required,ssl-key=/k", "belong together"),
            ("ssl_ca=/ca.pem", "ssl-ca"),
        ] {
            let error = parse_instance(&format!("1:-,host=db,{keys}")).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn the_same_name_twice_is_refused() {
        let arguments = Arguments::try_parse_from(["dynoprobe", "--driver", "1:5", "--driver", "1:6"]).unwrap();
        assert!(arguments.machine().unwrap_err().contains("--driver 1 is given twice"));
    }

    #[test]
    fn the_password_comes_from_the_first_line_of_its_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"hun\xdfter2\n").unwrap();
        let instance = parse_instance(&format!("1:7,socket=/s,password-file={}", file.path().display())).unwrap();
        assert!(!format!("{instance:?}").contains("ter2"));
        let Access::Connect(options) = instance.access else {
            panic!("no connection")
        };
        assert_eq!(options.password.reveal(), b"hun\xdfter2");
    }
}
