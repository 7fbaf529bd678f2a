import { resolve } from 'node:path'
import { readClusterKeys } from '../../config/cluster-file.js'
import { locateHome } from '../../config/home.js'
import { defineCommand, exitCodes, usage } from '../command.js'
import { sharedOptions } from '../common-options.js'
import { checkMembers, clusterFileOf, clusterOptionsOf } from '../service/cluster-options.js'
import { hubOptions } from '../service/listening.js'

/** The command `svc cluster join`. */
export const command = defineCommand({
  operands: {},
  options: {
    'key-file': { type: 'text', value: 'file', help: 'copy of cluster.key of another hub' },
    ...hubOptions,
    cluster: { type: 'text', value: 'name', help: 'name of the cluster, if etcd serves several (default: svc)' },
    json: sharedOptions.json
  },
  details:
    'Makes this machine a further hub of a cluster. The data directory (SVC_HOME) must be empty, and another hub must run: the\n' +
    'database comes from it. The key is copied to cluster.key; remove the file that you carried here.',
  examples: [
    [
      'cluster join --key-file cluster.key --store etcd:https://e1:2379,https://e2:2379,https://e3:2379 --etcd-ca ca.pem --hub-name h2 --hub-url https://h2:5431',
      'make this machine a hub'
    ]
  ],
  async run({ options: { json, cluster, 'key-file': keyFile, ...words } }, { env, cwd, output }) {
    if (keyFile === undefined) throw usage('--key-file', '--key-file is missing: copy cluster.key from another hub')
    const home = locateHome(env, cwd)
    const keys = await readClusterKeys(resolve(cwd, keyFile))
    const file = clusterFileOf(words, { known: null, cwd, cluster })
    const options = await clusterOptionsOf(file, { home, env, keys })
    await checkMembers(options, output.warn)
    const { joinCluster } = await import('../../server/cluster/join.js')
    const joined = await joinCluster({ home, file, options, warn: output.warn, info: output.note })
    if (json) output.json({ cluster: file.cluster, hub: file.hub, ...joined })
    else output.print(`"${file.hub.name}" is a hub of the cluster "${file.cluster}"`)
    output.note(`Start it: svc serve --store etcd:${file.etcd.endpoints.join(',')}`)
    return exitCodes.success
  }
})
