import t from 'tap'
import { networkFileSystem, refuseNetworkHome } from '../../lib/config/network-home.js'
import { configSays } from '../support/sentences/config.js'
import { matching } from '../support/sentences/matching.js'

t.test('recognises network file systems by the type from statfs', async t => {
  const table: Array<[type: number, name: string | null]> = [
    [0x6969, 'NFS'],
    [0xff534d42, 'CIFS'],
    [0xff534d42 | 0, 'CIFS'],
    [0xfe534d42, 'SMB'],
    [0xef53, null],
    [0x01021994, null],
    [0x9123683e, null],
    [0, null]
  ]
  for (const [type, name] of table) t.equal(networkFileSystem(type), name, `0x${type.toString(16)}`)
})

t.test(
  'refuses a data directory on NFS with advice, unless the operator allows it',
  { skip: process.platform !== 'linux' && 'only Linux has the types' },
  async t => {
    const home = { directory: '/home/user/.svc' }
    const nfs = async (): Promise<number> => 0x6969
    const refused = {
      code: 'home_on_network',
      message: matching(configSays.onNetwork('/home/user/.svc', 'NFS'), /.*/, configSays.networkCure)
    }
    await t.rejects(refuseNetworkHome(home, {}, nfs), refused)
    await t.rejects(refuseNetworkHome(home, { SVC_NETWORK_HOME: '0' }, nfs), refused)
    await refuseNetworkHome(home, { SVC_NETWORK_HOME: '1' }, nfs)
    await refuseNetworkHome({ directory: t.testdir({}) }, {})
    await refuseNetworkHome(home, {}, () => Promise.reject(new Error('no statfs')))
  }
)
