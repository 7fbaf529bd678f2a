import { isGoing } from '../../model/rollout.js'
import { defineCommand, exitCodes } from '../command.js'
import { projectDetails } from '../common-options.js'
import { openRollout, rolloutOperand, rolloutPlaceOptions } from '../fleet/fleet-place.js'
import { nextLine, watchRollout } from '../fleet/rollout-watch.js'
import { rolloutLines } from '../fleet/wave-view.js'

/** The command `svc rollout status`. */
export const command = defineCommand({
  operands: { rolloutId: rolloutOperand },
  options: {
    follow: { type: 'switch', alias: 'f', help: 'wait until the rollout is done, halted or reverted' },
    ...rolloutPlaceOptions,
    json: { type: 'switch', help: 'print the rollout with its nodes as JSON' }
  },
  details:
    'Each wave is a line: its nodes, a sign for each node, and how many are in which phase.\n' +
    'On a terminal, --follow draws the waves again when they change. Ctrl-C only stops watching.\n\n' +
    'Exit code 0: the rollout is done, or in progress without --follow. 1: it is halted or reverted.\n\n' +
    projectDetails,
  examples: [
    ['rollout status', 'show the newest rollout of the configured project'],
    ['rollout status ro_abcdefghijklmnop --follow', 'watch one rollout until it ends']
  ],
  async run({ options, operands }, context) {
    const { output } = context
    const place = await openRollout(context, { options, operands })
    const rollout = options.follow ? await watchRollout(context, place) : await place.fleet.rollout(place.rolloutId)
    if (options.json) output.json(rollout)
    else for (const line of rolloutLines(rollout, { paint: output.paint, nowMs: Date.now() })) output.print(line)
    const next = nextLine(rollout, options)
    if (next !== null) output.note(next)
    return rollout.state === 'done' || isGoing(rollout.state) ? exitCodes.success : exitCodes.failed
  }
})
