import {
  isGoing,
  type RolloutDetail,
  type RolloutState,
  rolloutStates,
  type NodePhase,
  type RolloutEvent
} from '../../model/rollout.js'
import { openProject, projectIdOf, type AdminOptions } from '../client/session.js'
import { type Context, defineCommand, exitCodes, type Family, number, option, toggle } from '../command.js'
import { type Host, isScreen, createPaint, type Paint } from '../terminal/output.js'
import { relativeTime } from '../terminal/words.js'
import { adminDetails, deploymentOptions, projectDetails, serverOptions, sharedOptions } from '../common-options.js'
import { countWords, paintState, rolloutLines, stateWords, errorLine } from '../fleet-view.js'
import { type GivenOptions, nextLine, detachedLine } from '../hints.js'
import type { Client } from '../client/client.js'
import { pause } from '../../base/clock.js'
import { Refusal } from '../../base/errors.js'
import { countOf } from '../../base/text.js'
import { mayRepeat, readNdjson, streamBroken } from '../client/answer.js'
import { widthOf } from '../terminal/columns.js'
import { Interrupted, withInterrupts } from '../terminal/prompt.js'
import { cleanText } from '../terminal/terminal-text.js'

/** The option `--no-wait`. */
export const waitOption = toggle('do not wait for the end of the rollout', { default: true })

interface Reported {
  /** The state that is a success. */
  wanted: 'done' | 'reverted'
  options: GivenOptions & { json: boolean }
}

/** Follows a rollout to its end, prints it, and returns the exit code: 0 if it reached the state that was wanted. */
async function reportRollout(context: Context, place: RolloutPlace, { wanted, options }: Reported): Promise<number> {
  const rollout = await watchRollout(context, place, options)
  show(context, rollout, options)
  return isReached(rollout, wanted) ? exitCodes.success : exitCodes.failed
}

/** Prints a rollout, and what can be done next. */
function show({ output }: Context, rollout: RolloutDetail, options: Reported['options']): void {
  output.result(options.json, rollout, () => rolloutLines(rollout, { paint: output.paint, nowMs: Date.now() }))
  const next = nextLine(rollout, options)
  if (next !== null) output.note(next)
}

/** Whether a rollout ended as wanted. A revert is a success only if no node is left with the release. */
function isReached({ state, counts }: RolloutDetail, wanted: Reported['wanted']): boolean {
  return state === wanted && (counts.stuck ?? 0) === 0
}

async function readRollout({ client, rolloutId }: RolloutPlace): Promise<RolloutDetail> {
  return (await client.call('GET /api/rollouts/:rolloutId', { rolloutId })).rollout
}

/** Operand of the commands for one rollout. */
const rolloutOperand = {
  complete: 'rollouts',
  help: 'id of the rollout; default: the newest one of the project'
} as const

/** The commands for rollouts. */
export const commands = {
  'rollout status': defineCommand({
    operands: { rolloutId: rolloutOperand },
    options: {
      follow: toggle('wait until the rollout is done, halted or reverted', { alias: 'f' }),
      ...deploymentOptions,
      json: toggle('print the rollout with its nodes as JSON')
    },
    details:
      'Each wave is a line: its nodes, a sign for each node, and how many are in which phase.\n' +
      'On a terminal, --follow draws the waves again when they change. Ctrl-C only stops watching.\n\n' +
      'Exit code 0: the rollout is done, or in progress without --follow. 1: it is halted or reverted.\n\n' +
      projectDetails('viewer'),
    examples: [
      ['rollout status', 'show the newest rollout of the configured project'],
      ['rollout status ro_abcdefghijklmnop --follow', 'watch one rollout until it ends']
    ],
    async run({ options, operands }, context) {
      const place = await openRollout(context, { options, operands })
      const rollout = options.follow ? await watchRollout(context, place) : await readRollout(place)
      show(context, rollout, options)
      return rollout.state === 'done' || isGoing(rollout.state) ? exitCodes.success : exitCodes.failed
    }
  }),

  'rollout list': defineCommand({
    operands: {
      project: { complete: 'projects', help: 'id or name of the project; default: all that the token sees' }
    },
    options: {
      state: option('state', 'list only rollouts in this state', { choices: rolloutStates }),
      limit: number('number', 'number of rollouts', { alias: 'n', default: 10, minimum: 1, maximum: 500 }),
      ...serverOptions,
      json: toggle('print the list as JSON')
    },
    details: projectDetails('viewer'),
    examples: [
      ['rollout list', 'list the latest rollouts'],
      ['rollout list shop --state halted', 'list the halted rollouts of a project']
    ],
    async run({ options, operands }, context) {
      const { output } = context
      const { limit, json } = options
      const { project } = operands
      const { client, config } = await openProject(context, { ...options, project })
      const projectId = project === undefined ? undefined : projectIdOf(context, config)
      const state = options.state as RolloutState | undefined
      const { rollouts } = await client.call('GET /api/rollouts', { query: { projectId, state, limit } })
      output.list(json, rollouts, {
        empty: 'There is no rollout.',
        columns: [
          { header: 'ROLLOUT', cell: ({ id }) => id },
          { header: 'PROJECT', cell: ({ projectName }) => projectName, shrinkTo: 24 },
          {
            header: 'STATE',
            cell: rollout => stateWords(rollout, Date.now()),
            paint: (text, rollout) => paintState(output.paint, rollout, text),
            wraps: true
          },
          { header: 'NODES', cell: ({ counts }) => countWords(counts), shrinkTo: 12, drop: 'last' },
          { header: 'BEGUN', cell: ({ createdAt }) => relativeTime(createdAt, Date.now()), drop: 'last' }
        ]
      })
    }
  }),

  'rollout halt': defineCommand({
    operands: { rolloutId: rolloutOperand },
    options: {
      reason: option('text', 'why; it is shown with the rollout', { alias: 'm' }),
      ...deploymentOptions,
      json: { ...sharedOptions.json, help: 'print the rollout as JSON' }
    },
    details:
      'No other node begins. A node that has begun finishes. Prepared nodes keep the release for 24 hours, so "svc\n' +
      `rollout resume" continues quickly.\n\n${projectDetails('operator')}`,
    examples: [['rollout halt -m "errors in the log of web-1"', 'stop the rollout of the configured project']],
    async run({ options, operands }, context) {
      const { output } = context
      const { client, rolloutId } = await openRollout(context, { options, operands })
      const { rollout } = await client.call('POST /api/rollouts/:rolloutId/halt', {
        rolloutId,
        body: { reason: options.reason }
      })
      output.result(
        options.json,
        rollout,
        () => `Halted ${rollout.id} in wave ${rollout.wave} of ${rollout.waves}: ${countWords(rollout.counts)}`
      )
      const next = nextLine(rollout, options)
      if (next !== null) output.note(next)
    }
  }),

  'rollout resume': defineCommand({
    operands: { rolloutId: rolloutOperand },
    options: {
      wait: waitOption,
      ...deploymentOptions,
      json: { ...sharedOptions.json, help: 'print the rollout as JSON' }
    },
    details:
      'Continues a rollout that was halted or reverted. Nodes that failed try again; nodes that do not answer are\n' +
      'skipped, and get the release when they come back. The command waits until the rollout is done (exit code 0) or\n' +
      `halted again (1). Ctrl-C only stops watching.\n\n${projectDetails('operator')}`,
    examples: [['rollout resume', 'continue the rollout of the configured project']],
    async run({ options, operands }, context) {
      const place = await openRollout(context, { options, operands })
      await place.client.call('POST /api/rollouts/:rolloutId/resume', { rolloutId: place.rolloutId })
      if (options.wait) return reportRollout(context, place, { wanted: 'done', options })
      context.output.print(`Continued ${place.rolloutId}`)
      return exitCodes.success
    }
  }),

  'rollout revert': defineCommand({
    operands: { rolloutId: rolloutOperand },
    options: {
      wave: number('n', 'first wave that goes back, with all after it; default: all', { minimum: 1 }),
      wait: waitOption,
      ...deploymentOptions,
      json: { ...sharedOptions.json, help: 'print the rollout as JSON' }
    },
    details:
      'Each node that has the release undoes its deployment: its earlier files are restored exactly, from its own\n' +
      'copies. A rollout that is in progress is halted first. The command waits until the nodes are back (exit code 0).\n' +
      `1: at least one is not. Ctrl-C only stops watching.\n\n${projectDetails('operator')}`,
    examples: [
      ['rollout revert', 'put back what all nodes had before the rollout of the configured project'],
      ['rollout revert ro_abcdefghijklmnop --wave 2', 'keep the release on the nodes of the first wave']
    ],
    async run({ options, operands }, context) {
      const place = await openRollout(context, { options, operands })
      await place.client.call('POST /api/rollouts/:rolloutId/revert', {
        rolloutId: place.rolloutId,
        body: { wave: options.wave }
      })
      if (options.wait) return reportRollout(context, place, { wanted: 'reverted', options })
      context.output.print(`The nodes of ${place.rolloutId} go back`)
      return exitCodes.success
    }
  }),

  'rollout approve': defineCommand({
    operands: { rolloutId: rolloutOperand },
    options: { ...deploymentOptions, json: { ...sharedOptions.json, help: 'print the rollout as JSON' } },
    details:
      'Possible while the rollout waits for an approval (policy "pause": "approve"), or pauses between two waves. The\n' +
      'deploy token of the project cannot approve: a pipeline that pushes does not decide about its own release.\n\n' +
      adminDetails('operator'),
    examples: [['rollout approve', 'begin the next wave of the rollout of the configured project']],
    async run({ options, operands }, context) {
      const { client, rolloutId } = await openRollout(context, { options, operands })
      const { rollout } = await client.call('POST /api/rollouts/:rolloutId/approve', { rolloutId })
      context.output.result(options.json, rollout, `Began wave ${rollout.wave} of ${rollout.waves} of ${rollout.id}`)
    }
  })
} satisfies Family

interface Given {
  operands: { rolloutId: string | undefined }
  options: AdminOptions & { project: string | undefined }
}

/** What a command for one rollout needs. */
interface RolloutPlace {
  client: Client
  rolloutId: string
}

/** Opens the API, and finds the rollout that the command line names: the newest one of the project by default. */
async function openRollout(context: Context, { operands: { rolloutId }, options }: Given): Promise<RolloutPlace> {
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
 * Follows a rollout and shows it until it is done, halted or reverted. Ctrl-C stops watching: then it says how to halt the
 * rollout, and throws Interrupted.
 */
async function watchRollout(
  context: Context,
  { client, rolloutId }: RolloutPlace,
  given: GivenOptions = {}
): Promise<RolloutDetail> {
  const { host, output } = context
  const view = createRolloutView(host)
  try {
    return await withInterrupts(host, signal =>
      followRollout({ open: () => eventsOf(client, rolloutId, signal), view, signal })
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
  signal: AbortSignal
}

/**
 * Follows a rollout until it is done, halted or reverted, and returns its last state. Reconnects after a lost
 * connection: the stream begins with the whole rollout, so nothing is missed. Throws the reason of the signal.
 */
export async function followRollout({ open, view, signal }: Following): Promise<RolloutDetail> {
  let rollout: RolloutDetail | null = null
  try {
    for (let brokenInRow = 0; ; brokenInRow++) {
      try {
        for await (const event of open()) {
          brokenInRow = 0
          rollout = afterEvent(rollout, event)
          if (rollout === null) continue
          view.show(rollout)
          if (event.type === 'end' || !isGoing(rollout.state)) return rollout
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
