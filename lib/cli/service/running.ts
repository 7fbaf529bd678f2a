/* What the commands that run a server have in common: readiness, signals, and whether the admin token is printed. */
import { constants, fstatSync } from 'node:fs'
import { access, rm } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { reasonOf, Refusal } from '../../base/errors.js'
import { replaceFile } from '../../base/files.js'
import type { RunningServer, ShowsToken } from '../../server/serve.js'
import { type Context, choice, number, option, type Options, type OptionTable, toggle, usage } from '../command.js'
import type { Host } from '../terminal/output.js'

/**
 * Decides when to print the admin token. Anyone may read a file or pipe later, so there only a new token is printed.
 */
export function whereTokenShows(isJson: boolean, { env, stdout }: Host): ShowsToken {
  // `svc serve --pm2` has already printed the token.
  if (isJson || env['SVC_SUPERVISED'] || printsToJournal(env)) return 'never'
  return stdout.isTTY ? 'always' : 'new'
}

/** Returns the readiness notifier, if there is a ready file or systemd to notify. */
export async function openReadiness(readyFile: string | undefined, context: Context): Promise<Readiness | undefined> {
  if (readyFile === undefined && !context.env['NOTIFY_SOCKET']) return undefined
  return createReadiness(readyFile === undefined ? undefined : resolve(context.cwd, readyFile), context)
}

/**
 * Waits until the server has stopped. The first signal waits for running deployments, the second does not. A start in
 * progress is completed first, unless `waiting` ends it: a hub may wait for its cluster for hours.
 */
export async function untilStopped(
  starting: Promise<RunningServer>,
  readiness: Readiness | undefined,
  { host, note, waiting }: { host: Host; note(text: string): void; waiting?: AbortController }
): Promise<void> {
  await new Promise<void>((done, reject) => {
    let asked = 0
    let server: RunningServer | undefined
    const fail = (error: unknown) =>
      waiting?.signal.aborted && error === waiting.signal.reason ? done() : reject(error)
    const stop = () => {
      waiting?.abort()
      const wait = ++asked === 1
      // A second signal may come when the database is closed.
      const isIdle = wait && server?.isDeploying() === false
      if (wait) note(isIdle ? 'Stopping' : 'Stopping: waiting for running deployments. Press Ctrl-C again to stop them')
      const told = wait ? readiness?.stopping(isIdle) : undefined
      starting.then(server => Promise.all([server.stop({ wait }), told])).then(() => done(), fail)
    }
    const reload = async (server: RunningServer) => {
      if (asked > 0) return
      await readiness?.reloading()
      await server.reload()
      await readiness?.ready(server.url)
    }
    const begin = (started: RunningServer) => {
      server = started
      return readiness?.ready(started.url)
    }
    starting.then(begin).catch(fail)
    host.on('SIGINT', stop)
    host.on('SIGTERM', stop)
    // Without a listener SIGHUP ends the server, even under `nohup`, because Node resets the disposition.
    host.on('SIGHUP', () => void starting.then(reload).catch(() => {}))
  })
}

/** Returns whether output goes to the systemd journal: JOURNAL_STREAM then names the same file. See systemd.exec(5). */
export function printsToJournal(env: Host['env'], descriptor: number = 1): boolean {
  const journal = env['JOURNAL_STREAM']
  if (!journal) return false
  const { dev, ino } = fstatSync(descriptor)
  return journal === `${dev}:${ino}`
}

/*
 * Notifies systemd, and programs that wait for a file, that the server is ready.
 *
 * The protocol of systemd (sd_notify(3)) is a datagram to the Unix socket in NOTIFY_SOCKET. Node does not support Unix
 * datagram sockets, so the program systemd-notify sends it, which is installed with systemd. systemd-notify is a
 * process of its own, so systemd ignores its messages unless the unit has NotifyAccess=all.
 */

const notifyLimitMs = 10_000
const readyFileMode = 0o644

/** Announces the state of the server. */
type Readiness = Awaited<ReturnType<typeof createReadiness>>

/**
 * Creates the notifier. `readyFile` contains the address while the server is ready; a file of an earlier server is
 * removed. Refuses (`invalid`) invalid_path if the file cannot be written. Warns if systemd cannot be notified, because
 * systemd would then wait and kill the server.
 */
async function createReadiness(readyFile: string | undefined, { env, cwd, output }: Context) {
  if (readyFile !== undefined) await prepare(readyFile)

  async function notify(...words: string[]): Promise<void> {
    const { NOTIFY_SOCKET } = env
    if (!NOTIFY_SOCKET) return
    const [{ runProcess }, { inheritedEnvironment }] = await Promise.all([
      import('../../core/proc/run.js'),
      import('../../core/proc/environment.js')
    ])
    const lines: string[] = []
    const command = ['systemd-notify', ...words]
    const ended = await runProcess({
      command,
      cwd,
      env: { ...inheritedEnvironment(env), NOTIFY_SOCKET },
      timeoutMs: notifyLimitMs,
      onLine: line => void lines.push(line)
    })
    if (ended.exitCode === 0) return
    const why = ended.error ?? (lines.join(' ') || `it exited with ${ended.signal ?? ended.exitCode}`)
    output.warn(
      `cannot notify systemd of "${words[0]}": systemd-notify failed: ${why}. Use Type=exec in the unit, or --ready-file`
    )
  }

  return {
    /** The server answers every request at this address. */
    async ready(url: string): Promise<void> {
      if (readyFile !== undefined) {
        await replaceFile(readyFile, `${url}/\n`, readyFileMode).catch((error: unknown) =>
          output.warn(`cannot write the ready file "${readyFile}": ${reasonOf(error)}`)
        )
      }
      await notify('READY=1', `STATUS=Listening on ${url}/`)
    },
    // Type=notify-reload requires the time; `hrtime` uses the same clock.

    /** The server is reloading its settings; `ready` follows. */
    reloading: (): Promise<void> => notify('RELOADING=1', `MONOTONIC_USEC=${process.hrtime.bigint() / 1000n}`),
    async stopping(isIdle: boolean): Promise<void> {
      if (readyFile !== undefined) await rm(readyFile, { force: true }).catch(() => {})
      await notify('STOPPING=1', `STATUS=${isIdle ? 'Stopping' : 'Waiting for running deployments'}`)
    }
  }
}

async function prepare(readyFile: string): Promise<void> {
  try {
    await rm(readyFile, { force: true })
    await access(dirname(readyFile), constants.W_OK)
  } catch (cause) {
    throw new Refusal('invalid', 'invalid_path', `Cannot write --ready-file "${readyFile}": ${reasonOf(cause)}`, {
      field: '--ready-file',
      cause
    })
  }
}

/** An option of `serve` and `agent`. */
export const allowSystemPathsOption = toggle(
  'allow projects to deploy to system directories, such as /etc or .ssh (docs/security.md)'
)

/** An option of `serve` and `agent`. */
export const requireSignaturesOption = toggle(
  'take only releases that a key in keys/allowed_signers of the data directory has signed; no token changes that'
)

/** An option of `serve` and `agent`. */
export const logFormatOption = choice(
  ['text', 'json'],
  'json: print each line as an object with time, level and message, and never print the admin token',
  { default: 'text' }
)

/** The options of `serve` for listening. None has a default here, so that only given options can conflict. */
export const listeningOptions = {
  host: option('address', 'address to listen on (default 127.0.0.1)'),
  port: number('number', 'port to listen on (default 5431); 0 chooses a free one', { alias: 'p', maximum: 65_535 }),
  socket: option('path', 'listen on a Unix socket instead, for a proxy on this machine'),
  'socket-mode': option('mode', 'permissions of the socket, as for chmod (default 0660)'),
  'tls-cert': option('file', 'serve HTTPS with this certificate chain in PEM; reloaded when it is renewed'),
  'tls-key': option('file', 'private key of the certificate in PEM, without a passphrase')
} as const satisfies OptionTable

export type ListeningWords = Options<typeof listeningOptions>

/** Where the server listens, and how. */
interface Listening {
  host?: string
  port?: number
  socket?: { path: string; mode: number }
  tls?: { cert: string; key: string }
}

const defaultSocketMode = '0660'

/** Checks and converts the options, with absolute paths. Refuses options that conflict, with the kind `usage`. */
export function listeningOf(words: ListeningWords, cwd: string): Listening {
  const { host, port, socket } = words
  const { 'tls-cert': cert, 'tls-key': key, 'socket-mode': mode } = words
  if ((cert === undefined) !== (key === undefined)) {
    const missing = cert === undefined ? '--tls-cert' : '--tls-key'
    throw usage(missing, `${missing} is missing: --tls-cert and --tls-key must be given together`)
  }
  if (socket === undefined) {
    if (mode !== undefined) throw usage('--socket-mode', '--socket-mode can only be used with --socket')
    return {
      ...(host !== undefined && { host }),
      ...(port !== undefined && { port }),
      ...(cert !== undefined && key !== undefined && { tls: { cert: resolve(cwd, cert), key: resolve(cwd, key) } })
    }
  }
  const other =
    port !== undefined ? '--port' : host !== undefined ? '--host' : cert !== undefined ? '--tls-cert' : undefined
  if (other !== undefined) {
    const why = other === '--tls-cert' ? 'the proxy terminates TLS' : 'the server listens on one address'
    throw usage(other, `${other} and --socket cannot be used together: ${why}`)
  }
  if (process.platform === 'win32') {
    throw new Refusal(
      'unsupported',
      'no_sockets',
      '--socket cannot be used on Windows, which has no Unix sockets. Use --port',
      { field: '--socket' }
    )
  }
  return { socket: { path: resolve(cwd, socket), mode: modeOf(mode ?? defaultSocketMode) } }
}

function modeOf(text: string): number {
  if (/^0?[0-7]{3}$/.test(text)) return Number.parseInt(text, 8)
  throw usage('--socket-mode', `--socket-mode cannot be "${text}": it must be three or four octal digits, like 0660`)
}

export const hubOptions = {
  store: option(
    'etcd:url,…',
    'be a hub of a cluster: addresses of the three members of etcd, or of its only one (docs/fleet.md)'
  ),
  'hub-name': option('name', 'name of this hub; default: as in cluster.json'),
  'hub-url': option('url', 'address at which the other hubs reach this one'),
  'hub-ca': option('file', 'certificates to trust for other hubs, in PEM, instead of the usual ones'),
  'allow-http': toggle(
    'let hubs of other machines be reached at http: addresses, on a private network; https is safer'
  ),
  'etcd-ca': option('file', 'certificate of the authority of etcd, in PEM'),
  'etcd-cert': option('file', 'certificate of this hub for etcd, if etcd requires one'),
  'etcd-key': option('file', 'private key of that certificate'),
  'etcd-user': option('name', 'user of etcd; also SVC_ETCD_USER'),
  'etcd-password-file': option('file', 'file with the password of that user; also SVC_ETCD_PASSWORD')
} as const satisfies OptionTable

export type HubWords = Options<typeof hubOptions>
