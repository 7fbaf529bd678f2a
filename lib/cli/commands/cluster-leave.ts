import { systemClock } from '../../base/clock.js'
import { locateHome } from '../../config/home.js'
import { defineCommand, exitCodes } from '../command.js'
import { sharedOptions } from '../common-options.js'
import { clusterOptionsOf } from '../service/cluster-options.js'

/** The command `svc cluster leave`. */
export const command = defineCommand({
  operands: {},
  options: {
    force: { type: 'switch', help: 'leave although archives may be on this hub only' },
    json: sharedOptions.json
  },
  details:
    'Takes the hub of this data directory (SVC_HOME) out of its cluster. Stop its server first.\n\n' +
    'If other hubs remain, its files are put aside; its node can go on as an agent of the others. The last hub becomes a server\n' +
    'without a cluster again: projects, deployments, audit log and targets are those of the server.',
  examples: [['cluster leave', 'leave the cluster']],
  async run({ options: { force, json } }, { env, cwd, output }) {
    const home = locateHome(env, cwd)
    const { leaveCluster } = await import('../../server/cluster/leave.js')
    const { hub, outcome, aside } = await leaveCluster({
      home,
      optionsOf: file => clusterOptionsOf(file, { home, env }),
      force,
      clock: systemClock,
      warn: output.warn,
      info: output.note
    })
    if (json) output.json({ cluster: hub?.cluster ?? null, hub: hub?.hub ?? null, outcome, aside })
    else if (outcome === 'alone') output.print('This server is not part of a cluster any more. Start it: svc serve')
    else output.print(`${hub === null ? 'This hub' : `"${hub.hub.name}"`} has left its cluster`)
    if (aside !== null) output.note(`The files as they were are in ${aside}`)
    return exitCodes.success
  }
})
