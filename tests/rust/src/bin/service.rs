//! A small service: sessions over TCP, a thread for each connection, jemalloc, and a port that needs
//! cap_net_bind_service. It has a leak: a closed session stays in the index by name.
//!
//!     service PORT        reads lines "open NAME", "close NAME", "quit"; prints its state
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const STATE_BYTES: usize = 4000;

struct Session {
    state: Vec<u8>,
}

#[derive(Default)]
struct Sessions {
    open: Vec<Arc<Session>>,
    by_name: HashMap<String, Arc<Session>>,
}

impl Sessions {
    #[inline(never)]
    fn open(&mut self, name: &str) {
        let session = Arc::new(Session { state: vec![7; STATE_BYTES] });
        self.open.push(session.clone());
        self.by_name.insert(name.to_string(), session);
    }

    #[inline(never)]
    fn close(&mut self, name: &str) {
        if let Some(session) = self.by_name.get(name) {
            self.open.retain(|other| !Arc::ptr_eq(other, session));
        }
    }
}

#[inline(never)]
fn serve(connection: TcpStream, sessions: Arc<Mutex<Sessions>>) {
    let mut answers = connection.try_clone().unwrap();
    for line in BufReader::new(connection).lines() {
        let line = line.unwrap();
        let mut sessions = sessions.lock().unwrap();
        match line.split_once(' ') {
            Some(("open", name)) => sessions.open(name),
            Some(("close", name)) => sessions.close(name),
            _ => {
                let kept: usize = sessions.by_name.values().map(|session| session.state.len()).sum();
                println!("{} open, {} in the index with {kept} bytes", sessions.open.len(), sessions.by_name.len());
                std::process::exit(0);
            }
        }
        answers.write_all(b"ok\n").unwrap();
    }
}

fn main() {
    let port: u16 = std::env::args().nth(1).expect("service PORT").parse().unwrap();
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    println!("{} listens on {}", std::env::current_exe().unwrap().display(), listener.local_addr().unwrap());
    let sessions = Arc::new(Mutex::new(Sessions::default()));
    for connection in listener.incoming() {
        let (connection, sessions) = (connection.unwrap(), sessions.clone());
        std::thread::Builder::new().name("session".into()).spawn(move || serve(connection, sessions)).unwrap();
    }
}
