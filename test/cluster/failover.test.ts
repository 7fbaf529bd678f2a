import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { anEtcd, withoutEtcd } from '../support/etcd.js'
import { freePort } from '../support/free-port.js'
import { startCutProxy } from '../support/cut-proxy.js'
import { startServeProcess, type ServeProcess } from '../support/serve-process.js'
import { svc } from '../support/svc.js'
import { until } from '../support/until.js'

const roleOf = async (hub: ServeProcess): Promise<string> =>
  (await hub.api<{ cluster: { role: string } }>('GET', '/api/cluster')).cluster.role

t.test('another hub leads after kill -9, and one that is cut off says so', { skip: withoutEtcd() }, async t => {
  const etcd = await anEtcd(t)
  const cwd = t.testdir()
  writeFileSync(join(cwd, 'ca.pem'), etcd.options.ca as string)
  const real = etcd.options.endpoints[0] as string
  const relay = await startCutProxy(t, real)
  const ports = [await freePort(), await freePort()]
  const homes = ['h1', 'h2'].map(name => join(cwd, name))
  const wordsOf = (at: number): string[] => {
    return [
      '--store',
      `etcd:https://${new URL(at === 0 ? real : relay.url).host}`,
      '--etcd-ca',
      'ca.pem',
      '--etcd-user',
      etcd.options.user as string
    ]
  }
  const envOf = (at: number) => ({ SVC_HOME: homes[at] as string, SVC_ETCD_PASSWORD: etcd.options.password as string })
  const enter = (at: number, words: string[]) =>
    svc([...words, ...wordsOf(at), '--hub-name', `h${at + 1}`, '--hub-url', `http://127.0.0.1:${ports[at]}`], {
      cwd,
      env: envOf(at)
    })
  const start = (at: number) => startServeProcess(t, cwd, [...wordsOf(at), '--port', String(ports[at])], envOf(at))

  t.equal((await enter(0, ['cluster', 'init'])).code, 0)
  const first = await start(0)
  const joined = await enter(1, ['cluster', 'join', '--key-file', join(homes[0] as string, 'cluster.key')])
  t.equal(joined.code, 0, joined.stderr)
  const second = await start(1)
  await until(async () => (await roleOf(second)) === 'follower')
  const project = await second.createProject({ name: 'Shop', deployPath: join(cwd, 'site') })
  t.equal((await first.api<{ id: string }>('GET', `/api/projects/${project.id}`)).id, project.id)

  const killedAtMs = performance.now()
  await first.stop('SIGKILL')
  await until(async () => {
    const made = await second.api('POST', '/api/categories', { name: 'After', color: 'blue' }).catch(() => null)
    return made !== null
  })
  t.comment(`writes continued ${Math.round(performance.now() - killedAtMs)} ms after kill -9`)
  t.equal(await roleOf(second), 'leader')
  const again = await start(0)
  await until(async () => (await roleOf(again)) === 'follower')
  t.match(await again.api('GET', '/api/categories'), [{ name: 'After' }])

  relay.cut()
  await until(async () => (await roleOf(again)) === 'leader')
  const answer = await fetch(`${second.url}/api/categories`, {
    headers: { authorization: `Bearer ${second.adminToken}` }
  })
  t.equal(answer.status, 200, 'the hub that is cut off answers reads')
  t.match(answer.headers.get('x-svc-stale'), /^\d+$/)
  await t.rejects(second.api('POST', '/api/categories', { name: 'Lost', color: 'blue' }), {
    message: /no_leader|not_leader/
  })
  await again.api('POST', '/api/categories', { name: 'Kept', color: 'blue' })
  relay.mend()
  await until(async () => (await second.api<unknown[]>('GET', '/api/categories')).length === 2)
  t.equal(await roleOf(second), 'follower')
})
