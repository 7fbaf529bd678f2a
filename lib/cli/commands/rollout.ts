import { isGoing, type RolloutDetail, type RolloutState, rolloutStates } from '../../model/rollout.js'
import { openProject, projectIdOf } from '../client/session.js'
import { type Context, defineCommand, exitCodes, type Family, number, option, toggle } from '../command.js'
import { adminDetails, deploymentOptions, projectDetails, serverOptions, sharedOptions } from '../common-options.js'
import { openRollout, rolloutOperand, type RolloutPlace, watchRollout } from '../fleet/rollouts.js'
import { countWords, paintState, rolloutLines, stateWords } from '../fleet/wave-view.js'
import { type GivenOptions, nextLine } from '../hints.js'
import { relativeTime } from '../terminal/words.js'

/** The option `--no-wait`. */
export const waitOption = toggle('do not wait for the end of the rollout', { default: true })

interface Reported {
  /** The state that is a success. */
  wanted: 'done' | 'reverted'
  options: GivenOptions & { json: boolean }
}

/** Follows a rollout to its end, prints it, and returns the exit code: 0 if it reached the state that was wanted. */
async function reportRollout(context: Context, place: RolloutPlace, { wanted, options }: Reported): Promise<number> {
  const rollout = await watchRollout(context, place, { given: options })
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
          { header: 'PROJECT', cell: ({ projectName }) => projectName, shrinkTo: 8 },
          {
            header: 'STATE',
            cell: rollout => stateWords(rollout, Date.now()),
            paint: (text, rollout) => paintState(output.paint, rollout, text),
            shrinkTo: 12
          },
          { header: 'NODES', cell: ({ counts }) => countWords(counts), shrinkTo: 12 },
          { header: 'BEGUN', cell: ({ createdAt }) => relativeTime(createdAt, Date.now()) }
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
