import { existsSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { twoMembers } from '../../lib/cluster/etcd/connection.js'
import { anEtcd, withoutEtcd } from '../support/etcd.js'
import { freePort } from '../support/free-port.js'
import { matching } from '../support/sentences/matching.js'
import { startServeProcess } from '../support/serve-process.js'
import { svc } from '../support/svc.js'
import { until } from '../support/until.js'
import { wordsFor } from './kills.js'

t.test('two members of etcd are refused, even if one is named', { skip: withoutEtcd() }, async t => {
  const etcd = await anEtcd(t, { size: 3 })
  const cwd = t.testdir()
  const { words, env: password } = wordsFor(etcd, cwd)
  const one = ['--store', `etcd:${etcd.options.endpoints[0]}`, ...words.slice(2)]
  const port = await freePort()
  const run = (home: string, command: string[]) =>
    svc([...command, '--hub-name', home, '--hub-url', `http://127.0.0.1:${port}`], {
      cwd,
      env: { ...password, SVC_HOME: join(cwd, home) }
    })

  async function remove(at: number): Promise<void> {
    const { members } = (await etcd.ask('/v3/cluster/member/list')) as { members: Array<{ ID: string; name: string }> }
    const { ID } = members.find(({ name }) => name === etcd.members[at]?.name) as { ID: string }
    // etcd refuses it while the members do not know each other for some seconds.
    await until(() => etcd.ask('/v3/cluster/member/remove', { ID }).catch(() => null), { what: 'the removal' })
    await etcd.members[at]?.kill()
    await etcd.ready()
  }

  const begun = await run('h1', ['cluster', 'init', ...one])
  t.equal(begun.code, 0, begun.stderr)
  t.notMatch(begun.stderr, matching(twoMembers))
  const key = join(cwd, 'h1', 'cluster.key')

  await remove(2)
  const init = await run('h2', ['cluster', 'init', '--cluster', 'other', ...one])
  t.match(init, { code: 2, stderr: matching(twoMembers) })
  const join2 = await run('h2', ['cluster', 'join', '--key-file', key, ...one])
  t.match(join2, { code: 2, stderr: matching(twoMembers) })
  t.notOk(existsSync(join(cwd, 'h2', 'cluster.json')), 'nothing was changed')
  const environment = { ...password, SVC_HOME: join(cwd, 'h1') }
  const hub = await startServeProcess(t, cwd, [...one.slice(0, 2), '--port', String(port)], environment)
  await hub.warns(matching(twoMembers))

  await remove(1)
  const third = await run('h3', ['cluster', 'join', '--key-file', key, ...words])
  t.match(third, { code: 0, stderr: /--store names 3 members of etcd, but etcd has 1/ })
})
