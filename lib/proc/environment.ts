/*
 * What programs that svc starts inherit of its environment. Every place that starts one asks here
 * (test/proc/spawn-sites lists them).
 */
type Environment = Readonly<Record<string, string | undefined>>

/** Of svc: its tokens, and what configures it. */
const ofSvc = /^(SVC_.*|ADMIN_TOKEN|NODE_CHANNEL_.*)$/

/**
 * What systemd tells the service about itself (systemd.exec(5), sd_notify(3), sd_listen_fds(3)). A daemon that a script
 * starts, and that knows how, would report itself ready in svc's name, write into svc's directories, or read its credentials.
 */
const ofSystemd =
  /^(NOTIFY_SOCKET|WATCHDOG_(PID|USEC)|LISTEN_(PID|PIDFDID|FDS|FDNAMES)|JOURNAL_STREAM|INVOCATION_ID|SYSTEMD_EXEC_PID|MAINPID|MAINPIDFDID|MANAGERPID|MANAGERPIDFDID|MEMORY_PRESSURE_(WATCH|WRITE)|(ENCRYPTED_)?CREDENTIALS_DIRECTORY|(RUNTIME|STATE|CACHE|LOGS|CONFIGURATION)_DIRECTORY)$/

/** What a program inherits of the server's environment: all but its secrets and its own affairs. */
export function inheritedEnvironment(environment: Environment): Record<string, string | undefined> {
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !ofSvc.test(name) && !ofSystemd.test(name)))
}

/** What the program inherits that starts another svc server: also what configures svc, but no token. */
export function serverEnvironment(environment: Environment): Record<string, string | undefined> {
  const settings = Object.entries(environment).filter(([name]) => name.startsWith('SVC_') && !/TOKEN/.test(name))
  return { ...inheritedEnvironment(environment), ...Object.fromEntries(settings) }
}
