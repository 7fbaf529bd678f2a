import { locateHome } from '../../config/home.js'
import type { ClusterStatus } from '../../model/cluster.js'
import { clusterOf, runningHub } from '../client/local.js'
import { defineCommand, exitCodes } from '../command.js'
import { sharedOptions } from '../common-options.js'
import { confirm, mustAsk } from '../terminal/prompt.js'

/** The command `svc cluster rekey`. */
export const command = defineCommand({
  operands: {},
  options: {
    yes: { ...sharedOptions.yes, help: 'do not ask before replacing the key; required without a terminal' },
    json: sharedOptions.json
  },
  details:
    'Replaces cluster.key, with which every value in etcd is sealed: after a hub was lost, or a copy of the key. A hub that was\n' +
    'removed then opens nothing that etcd contains, and nothing that it writes there is accepted.\n\n' +
    'Run it on the machine of the hub that leads (SVC_HOME is its data directory). All hubs must run: each one gets the new key\n' +
    'from the leader, and all use it from the same moment on. If one does not take it, nothing has changed.\n\n' +
    'Remove the hub first ("svc cluster forget"), and give etcd another password: who has the old key and can write in etcd\n' +
    'can enter the list of hubs. So look at the list before you confirm it. Backups and snapshots of etcd of before have the old\n' +
    'key.',
  examples: [['cluster rekey', 'a hub was stolen, and has been removed']],
  async run({ options: { yes, json } }, context) {
    const { env, cwd, host, output } = context
    if (!yes) mustAsk(host, 'Replacing the key of the cluster needs a confirmation', 'use --yes')
    const home = locateHome(env, cwd)
    const client = await runningHub(home, env)
    const { hubs } = await clusterOf(client, home)
    const named = hubs.map(({ name, url }) => ({ name, url }))
    if (!json) for (const { name, url } of named) output.print(`${name}  ${url}`)
    if (!yes && !(await confirm(host, 'Give these hubs a new key, and no other one?'))) {
      output.note('Nothing was changed.')
      return exitCodes.failed
    }
    const { hubs: names } = await client.json<{ hubs: ClusterStatus['hubs'] }>({
      method: 'POST',
      path: '/api/cluster/key',
      json: { hubs: named }
    })
    if (json) output.json({ hubs: names })
    else output.print('The cluster has a new key')
    output.note('Copies of cluster.key, backups and snapshots of etcd of before open nothing of now. Make a new backup')
    return exitCodes.success
  }
})
