/* What the commands that run a server have in common: readiness, signals, and whether the admin token is printed. */
import { resolve } from 'node:path'
import type { RunningServer, ShowsToken } from '../../server/serve.js'
import type { Context } from '../command.js'
import type { Host } from '../host.js'
import type { Readiness } from './readiness.js'

/**
 * Decides when to print the admin token. Anyone may read a file or pipe later, so there only a new token is printed.
 */
export async function whereTokenShows(isJson: boolean, { env, stdout }: Host): Promise<ShowsToken> {
  // `svc serve --pm2` has already printed the token.
  if (isJson || env['SVC_SUPERVISED'] || (await printsToJournal(env))) return 'never'
  return stdout.isTTY ? 'always' : 'new'
}

async function printsToJournal(env: Host['env']): Promise<boolean> {
  return Boolean(env['JOURNAL_STREAM']) && (await import('./journal.js')).printsToJournal(env)
}

/** Returns the readiness notifier. Loads it only if there is a ready file or systemd to notify. */
export async function openReadiness(readyFile: string | undefined, context: Context): Promise<Readiness | undefined> {
  if (readyFile === undefined && !context.env['NOTIFY_SOCKET']) return undefined
  const { createReadiness } = await import('./readiness.js')
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
      const isIdle = server?.isDeploying() === false
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
