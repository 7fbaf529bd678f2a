import { rolloutStates, type RolloutState } from '../../model/rollout.js'
import { createFleetApi } from '../client/fleet-api.js'
import { loadConfiguration, openProjectApi } from '../client/session.js'
import { defineCommand, exitCodes } from '../command.js'
import { projectDetails, sharedOptions } from '../common-options.js'
import { countWords, paintState, stateWords } from '../fleet/wave-view.js'
import { findProject } from '../project-options.js'
import { relativeTime } from '../terminal/words.js'

/** The command `svc rollout list`. */
export const command = defineCommand({
  operands: { project: { complete: 'projects', help: 'id or name of the project; default: all that the token sees' } },
  options: {
    state: { type: 'text', value: 'state', choices: rolloutStates, help: 'list only rollouts in this state' },
    limit: {
      type: 'count',
      alias: 'n',
      value: 'number',
      default: 10,
      minimum: 1,
      maximum: 500,
      help: 'number of rollouts'
    },
    env: sharedOptions.env,
    server: sharedOptions.server,
    token: sharedOptions.token,
    json: { type: 'switch', help: 'print the list as JSON' }
  },
  details: projectDetails,
  examples: [
    ['rollout list', 'list the latest rollouts'],
    ['rollout list shop --state halted', 'list the halted rollouts of a project']
  ],
  async run({ options, operands }, context) {
    const { output } = context
    const { env, server, token, limit, json } = options
    const { config } = await loadConfiguration(context, { flags: { server, token }, env, project: 'optional' })
    const api = await openProjectApi(context, config)
    const word = operands.project
    const projectId = word === undefined || /^proj_\w+$/.test(word) ? word : (await findProject(api, word)).id
    const state = options.state as RolloutState | undefined
    const rollouts = await createFleetApi(api.client).rollouts({ projectId, state, limit })
    if (json) output.json(rollouts)
    else if (rollouts.length === 0) output.note('There is no rollout.')
    else
      output.table(rollouts, [
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
      ])
    return exitCodes.success
  }
})
