import { closeSync, openSync } from 'node:fs'

/*
 * The environments of programs that svc starts. Every place that starts one calls these functions
 * (test/core/proc/spawn-sites lists them).
 */
type Environment = Readonly<Record<string, string | undefined>>

/** The variables of svc itself: its tokens and its configuration. */
const ofSvc = /^(SVC_.*|ADMIN_TOKEN|NODE_CHANNEL_.*)$/

/**
 * The variables in which systemd describes the service itself (systemd.exec(5), sd_notify(3), sd_listen_fds(3)). With
 * them, a daemon that a script starts could report itself ready in svc's name, write into svc's directories, or read
 * its credentials.
 */
const ofSystemd =
  /^(NOTIFY_SOCKET|WATCHDOG_(PID|USEC)|LISTEN_(PID|PIDFDID|FDS|FDNAMES)|JOURNAL_STREAM|INVOCATION_ID|SYSTEMD_EXEC_PID|MAINPID|MAINPIDFDID|MANAGERPID|MANAGERPIDFDID|MEMORY_PRESSURE_(WATCH|WRITE)|(ENCRYPTED_)?CREDENTIALS_DIRECTORY|(RUNTIME|STATE|CACHE|LOGS|CONFIGURATION)_DIRECTORY)$/

/**
 * Returns the environment that a program inherits: everything except svc's secrets and configuration, and systemd's
 * description of svc.
 */
export function inheritedEnvironment(environment: Environment): Record<string, string | undefined> {
  return variablesWhere(environment, name => !ofSvc.test(name) && !ofSystemd.test(name))
}

/**
 * Returns the environment that a program inherits if it starts another svc server: also svc's configuration, but no
 * token.
 */
export function serverEnvironment(environment: Environment): Record<string, string | undefined> {
  const settings = variablesWhere(environment, name => name.startsWith('SVC_') && !/TOKEN/.test(name))
  return { ...inheritedEnvironment(environment), ...settings }
}

/** Returns the variables with wanted names. */
export function variablesWhere(
  environment: Environment,
  isWanted: (name: string) => boolean
): Record<string, string | undefined> {
  return Object.fromEntries(Object.entries(environment).filter(([name]) => isWanted(name)))
}

/*
 * Descriptors of this process that no program may inherit. Node marks its own (O_CLOEXEC), but node-pty does not mark
 * the terminals that it opens. A program that inherits a terminal can read its input and output, type into its shell,
 * and prevent the hangup when svc ends. Node cannot mark descriptors later, so each program gets /dev/null in their
 * place.
 */

const kept = new Map<number, symbol>()

/**
 * Withholds a descriptor from programs from now on. Returns a function that ends this. If the descriptor is closed
 * before, that does no harm. If it was assigned again in the meantime, it stays withheld: a stream reports its close a
 * moment after its number was reassigned.
 */
export function keepBack(fd: number): () => void {
  const holder = Symbol(`descriptor ${fd}`)
  kept.set(fd, holder)
  return () => {
    if (kept.get(fd) === holder) kept.delete(fd)
  }
}

/** Calls `start` with the `stdio` for spawn, extended by /dev/null for each withheld descriptor. */
export function withoutKept<Stdio, Result>(
  stdio: readonly Stdio[],
  start: (stdio: Array<Stdio | number | undefined>) => Result
): Result {
  const hidden = [...kept.keys()].filter(fd => fd >= stdio.length)
  if (hidden.length === 0) return start([...stdio])
  const nothing = openSync('/dev/null', 'r+')
  try {
    const all: Array<Stdio | number | undefined> = [...stdio]
    for (const fd of hidden) all[fd] = nothing
    return start(Array.from(all))
  } finally {
    closeSync(nothing)
  }
}

/** The number of the first of `descriptors` in a helper process; Node's channel is 3. */
export const firstDescriptor = 4
