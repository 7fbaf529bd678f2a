import type { Client } from '../client/client.js'
import { pause } from '../../base/clock.js'
import { Refusal } from '../../base/errors.js'
import { countOf } from '../../base/text.js'
import { isGoing, type NodePhase, type RolloutDetail, type RolloutEvent } from '../../model/rollout.js'
import { type AdminOptions, openProject, projectIdOf } from '../client/session.js'
import { mayRepeat, readNdjson, streamBroken } from '../client/streams.js'
import type { Context } from '../command.js'
import { detachedLine, type GivenOptions } from '../hints.js'
import { type Host, isScreen } from '../host.js'
import { widthOf } from '../terminal/columns.js'
import { createPaint, type Paint } from '../terminal/output.js'
import { Interrupted, withInterrupts } from '../terminal/prompt.js'
import { cleanText } from '../terminal/terminal-text.js'
import { errorLine, rolloutLines, stateWords } from './wave-view.js'

/** Operand of the commands for one rollout. */
export const rolloutOperand = {
  complete: 'rollouts',
  help: 'id of the rollout; default: the newest one of the project'
} as const

interface Given {
  operands: { rolloutId: string | undefined }
  options: AdminOptions & { project: string | undefined }
}

/** What a command for one rollout needs. */
export interface RolloutPlace {
  client: Client
  rolloutId: string
}

/** Opens the API, and finds the rollout that the command line names: the newest one of the project by default. */
export async function openRollout(
  context: Context,
  { operands: { rolloutId }, options }: Given
): Promise<RolloutPlace> {
  const isNeeded = rolloutId === undefined && options.project === undefined
  const { client, config } = await openProject(context, options, isNeeded)
  if (rolloutId !== undefined) return { client, rolloutId }
  const projectId = projectIdOf(context, config)
  const [newest] = (await client.call('GET /api/rollouts', { query: { projectId, limit: 1 } })).rollouts
  if (newest === undefined)
    throw new Refusal('not_found', 'no_rollout', `There is no rollout of ${options.project ?? projectId}`)
  return { client, rolloutId: newest.id }
}

/**
 * Follows a rollout and shows it until it is done, halted or reverted, or until `until` is true. Ctrl-C stops watching:
 * then it says how to halt the rollout, and throws Interrupted.
 */
export async function watchRollout(
  context: Context,
  { client, rolloutId }: RolloutPlace,
  { until, given = {} }: { until?: (rollout: RolloutDetail) => boolean; given?: GivenOptions } = {}
): Promise<RolloutDetail> {
  const { host, output } = context
  const view = createRolloutView(host)
  try {
    return await withInterrupts(host, signal =>
      followRollout({ open: () => eventsOf(client, rolloutId, signal), view, signal, ...(until && { until }) })
    )
  } catch (error) {
    if (error instanceof Interrupted) output.note(detachedLine(rolloutId, given))
    throw error
  }
}

/** Timeout for silence on a stream of events. The server sends nothing while a rollout waits, so it is long. */
const eventSilenceMs = 24 * 60 * 60_000

/** Yields the events of a rollout until its line `end`. Throws `stream_broken` if the connection is lost before. */
export async function* eventsOf(client: Client, rolloutId: string, signal: AbortSignal): AsyncGenerator<RolloutEvent> {
  const events = { rolloutId, accept: 'application/x-ndjson', signal } as const
  const answer = await client.ask('GET /api/rollouts/:rolloutId/events', events)
  answer.setTimeout(eventSilenceMs, () => answer.destroy(streamBroken()))
  for await (const value of readNdjson(answer)) {
    const event = value as unknown as RolloutEvent
    yield event
    if (event.type === 'end') return
  }
  throw streamBroken()
}

const maxBrokenInRow = 12
const longestPauseMs = 5000

interface Following {
  /** Returns the events of the rollout from the beginning. */
  open(): AsyncIterable<RolloutEvent>
  view: RolloutView
  /** Stops following before the end, when it is true. */
  until?: (rollout: RolloutDetail) => boolean
  signal: AbortSignal
}

/**
 * Follows a rollout until it is done, halted or reverted, and returns its last state. Reconnects after a lost
 * connection: the stream begins with the whole rollout, so nothing is missed. Throws the reason of the signal.
 */
export async function followRollout({ open, view, until, signal }: Following): Promise<RolloutDetail> {
  let rollout: RolloutDetail | null = null
  try {
    for (let brokenInRow = 0; ; brokenInRow++) {
      try {
        for await (const event of open()) {
          brokenInRow = 0
          rollout = afterEvent(rollout, event)
          if (rollout === null) continue
          view.show(rollout)
          if (event.type === 'end' || !isGoing(rollout.state) || until?.(rollout) === true) return rollout
        }
      } catch (error) {
        if (signal.aborted) throw signal.reason
        if (!mayRepeat(error) || brokenInRow >= maxBrokenInRow) throw error
        await pause(Math.min(longestPauseMs, 250 * 2 ** brokenInRow), signal)
      }
    }
  } finally {
    view.end()
  }
}

/** Returns a rollout after an event. The first line of a stream is the whole rollout; others before it say nothing. */
export function afterEvent(rollout: RolloutDetail | null, event: RolloutEvent): RolloutDetail | null {
  if (event.type === 'rollout') return event.rollout
  if (rollout === null) return null
  if (event.type === 'node') {
    const { node } = event
    const isNew = rollout.nodes.every(({ nodeId }) => nodeId !== node.nodeId)
    const nodes = isNew
      ? [...rollout.nodes, node]
      : rollout.nodes.map(each => (each.nodeId === node.nodeId ? node : each))
    return { ...rollout, nodes, nodeCount: nodes.length, counts: countsOf(nodes) }
  }
  return { ...rollout, ...event.rollout }
}

function countsOf(nodes: RolloutDetail['nodes']): Partial<Record<NodePhase, number>> {
  const counts: Partial<Record<NodePhase, number>> = {}
  for (const { phase } of nodes) counts[phase] = (counts[phase] ?? 0) + 1
  return counts
}

/* What a command shows while it follows a rollout: a block that is drawn again on a terminal, or lines elsewhere. */

/** Shows a rollout that changes. */
interface RolloutView {
  show(rollout: RolloutDetail): void
  end(): void
}

const drawEveryMs = 100
const defaultColumns = 80
const defaultRows = 24

/** Returns the view for the standard error of a command. */
export function createRolloutView(host: Pick<Host, 'stderr' | 'env'>): RolloutView {
  const paint = createPaint(host.stderr, host.env)
  return isScreen(host.stderr, host.env)
    ? createBlock(host.stderr, paint)
    : createLines(line => void host.stderr.write(cleanText(`${line}\n`)), paint)
}

/** Draws the rollout over what it drew before. The end removes the block: the command prints the last state itself. */
function createBlock(stream: Host['stderr'], paint: Paint): RolloutView {
  let drawnLines = 0
  let waiting: NodeJS.Timeout | undefined
  let last: RolloutDetail | null = null
  let drawnAtMs = 0

  function erase(): void {
    if (drawnLines > 0) stream.write(`\x1b[${drawnLines}A\r\x1b[J`)
    drawnLines = 0
  }

  function draw(): void {
    waiting = undefined
    if (last === null) return
    drawnAtMs = Date.now()
    const columns = stream.columns ?? defaultColumns
    const room = Math.max(3, (stream.rows ?? defaultRows) - 2)
    const all = rolloutLines(last, { paint, nowMs: Date.now() })
    const lines =
      all.length <= room
        ? all
        : [...all.slice(0, room - 1), paint.dim(`and ${countOf(all.length - room + 1, 'line')} more`)]
    erase()
    stream.write(cleanText(`${lines.join('\n')}\n`))
    // A line that wraps takes several rows.
    drawnLines = lines.reduce((sum, line) => sum + Math.max(1, Math.ceil(widthOf(line) / columns)), 0)
  }

  return {
    show(rollout) {
      last = rollout
      waiting ??= setTimeout(draw, Math.max(0, drawnAtMs + drawEveryMs - Date.now()))
    },
    end() {
      clearTimeout(waiting)
      erase()
    }
  }
}

/** Prints a line when the rollout changes its state or begins a wave, and one for each node that fails. */
function createLines(print: (line: string) => void, paint: Paint): RolloutView {
  let shown = ''
  const failed = new Set<string>()
  return {
    show(rollout) {
      const { state, wave } = rollout
      for (const node of rollout.nodes) {
        const key = `${node.nodeId} ${node.attempt}`
        if ((node.phase !== 'failed' && node.phase !== 'stuck') || failed.has(key)) continue
        failed.add(key)
        print(errorLine(node, paint))
      }
      if (shown === `${state} ${wave}`) return
      shown = `${state} ${wave}`
      print(`${rollout.id}: ${stateWords(rollout, Date.now())}`)
    },
    end() {}
  }
}
