import { defineCommand, exitCodes } from '../command.js'
import { projectDetails, sharedOptions } from '../common-options.js'
import { openRollout, rolloutOperand, rolloutPlaceOptions } from '../fleet/fleet-place.js'
import { reportRollout, waitOption } from '../fleet/rollout-report.js'

/** The command `svc rollout revert`. */
export const command = defineCommand({
  operands: { rolloutId: rolloutOperand },
  options: {
    wave: { type: 'count', value: 'n', minimum: 1, help: 'first wave that goes back, with all after it; default: all' },
    wait: waitOption,
    ...rolloutPlaceOptions,
    json: { ...sharedOptions.json, help: 'print the rollout as JSON' }
  },
  details:
    'Each node that has the release undoes its deployment: its earlier files are restored exactly, from its own\n' +
    'copies. A rollout that is in progress is halted first. The command waits until the nodes are back (exit code 0).\n' +
    `1: at least one is not. Ctrl-C only stops watching.\n\n${projectDetails}`,
  examples: [
    ['rollout revert', 'put back what all nodes had before the rollout of the configured project'],
    ['rollout revert ro_abcdefghijklmnop --wave 2', 'keep the release on the nodes of the first wave']
  ],
  async run({ options, operands }, context) {
    const place = await openRollout(context, { options, operands })
    await place.fleet.revert(place.rolloutId, options.wave)
    if (options.wait) return reportRollout(context, place, { wanted: 'reverted', options })
    context.output.print(`The nodes of ${place.rolloutId} go back`)
    return exitCodes.success
  }
})
