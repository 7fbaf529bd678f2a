import type { FinalStatus } from '../model/deployment.js'
import { isBroken, type Api, type Run, type RunEvent } from './api.js'
import type { Context } from './command.js'
import { followLine, type GivenOptions } from './hints.js'
import { Interrupted } from './prompt.js'
import { humanDuration } from './units.js'

/** How a deployment that was watched left us. */
export type Watched =
  | { outcome: 'ended'; status: FinalStatus; duration: string; deployId: string | null; page: string | null }
  | { outcome: 'detached'; deployId: string | null }

export interface WatchOptions {
  api: Api
  projectId: string
  /** What the user gave, for hints. */
  given?: GivenOptions
  print(line: string): void
  /** Ctrl-C: stop watching; the deployment goes on. */
  signal: AbortSignal
}

/**
 * Prints the lines of a deployment until it ends. Where the connection breaks it says so and follows by the event
 * stream, which replays: lines already printed are left out.
 */
export async function watchRun(run: Run, { output }: Context, options: WatchOptions): Promise<Watched> {
  const { api, projectId, print, signal } = options
  let deployId = run.deployId
  let printed = 0
  try {
    return await consume(run.events)
  } catch (error) {
    if (signal.aborted) return await detached()
    if (!isBroken(error)) throw error
    deployId ??= await newest()
    if (deployId === null) throw error
    output.warn(`the connection broke, the deployment goes on: following it (or later: ${followLine(deployId, options.given)})`)
  }
  try {
    let skip = printed
    printed = 0
    return await consume(skipping(api.follow(deployId, { signal }), () => skip-- > 0))
  } catch (error) {
    if (signal.aborted) return await detached()
    throw error
  }

  async function consume(events: AsyncIterable<RunEvent>): Promise<Watched> {
    for await (const event of events) {
      if (event.event === 'log') {
        printed++
        print(event.text)
      } else
        return {
          outcome: 'ended',
          status: event.status,
          duration: event.duration,
          deployId: event.deployId ?? deployId,
          page: run.page
        }
    }
    throw new Error('a stream of run events ended without a status')
  }

  async function detached(): Promise<Watched> {
    return { outcome: 'detached', deployId: deployId ?? (await newest()) }
  }

  /** The server says the id first thing; this is for one that does not. */
  async function newest(): Promise<string | null> {
    const [deployment] = await api.deployments({ projectId, limit: 1 }).catch(() => [])
    return deployment?.id ?? null
  }
}

async function* skipping(events: AsyncIterable<RunEvent>, isSkipped: () => boolean): AsyncGenerator<RunEvent> {
  for await (const event of events) if (event.event !== 'log' || !isSkipped()) yield event
}

/** Says how it ended, last, in words or as JSON; answers the exit code: 0 only for success. */
export function reportRun(watched: Watched, { output }: Context, options: { what: string; json: boolean; given?: GivenOptions }): number {
  const { deployId } = watched
  if (watched.outcome === 'detached') {
    output.note(`Detached: the deployment goes on. Follow it with: ${followLine(deployId, options.given)}`)
    throw new Interrupted()
  }
  const { status, duration, page } = watched
  if (options.json) output.json({ deployId, status, duration, ...(page !== null && { url: page }) })
  else {
    const { paint } = output
    const word = status === 'success' ? paint.green('✔ success') : paint.red('✘ failed')
    output.print(`${word}: ${options.what} in ${readable(duration)} (${deployId ?? 'unknown id'})`)
    if (page !== null) output.note(page)
  }
  return status === 'success' ? 0 : 1
}

/** `84.00s` → `1m 24s`. */
function readable(duration: string): string {
  const seconds = Number.parseFloat(duration)
  return Number.isFinite(seconds) && seconds >= 60 ? humanDuration(seconds * 1000) : duration
}
