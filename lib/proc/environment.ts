/**
 * Of the server's own environment: its secrets, and what is about the server itself. What systemd tells a service is: a
 * daemon that a script starts, and that knows how, would report itself ready, or as the main process, in svc's name.
 */
const ownName = /^(SVC_.*|ADMIN_TOKEN|NODE_CHANNEL_.*|NOTIFY_SOCKET|WATCHDOG_(PID|USEC)|LISTEN_(PID|FDS|FDNAMES)|JOURNAL_STREAM)$/

/** What a program that runs for the user inherits of the server's environment: all but its secrets and its own affairs. */
export function inheritedEnvironment(
  environment: Readonly<Record<string, string | undefined>>
): Record<string, string | undefined> {
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !ownName.test(name)))
}
