import t from 'tap'
import { systemClock } from '../../lib/base/clock.js'
import { type ClusterSecrets, openHubIdentity, startRenewing } from '../../lib/cluster/options.js'
import { createExpiryWarnings } from '../../lib/http/tls/expiry.js'
import { readSettings } from '../../lib/core/store/tables/server.js'
import { makeCertificate, makeSigned } from '../support/certificates.js'
import { anEtcd, withoutEtcd } from '../support/etcd.js'
import { until } from '../support/until.js'
import { hubsOn, put } from './hubs.js'

t.test('a hub keeps its key, and each start is another one', async t => {
  const directory = t.testdir()
  const options = { hub: { name: 'h1', url: 'http://h1' }, key: Buffer.alloc(32) }
  const first = await openHubIdentity(directory, options, systemClock)
  const second = await openHubIdentity(directory, options, systemClock)
  t.equal(second.hub.publicKey, first.hub.publicKey)
  t.not(second.hub.boot, first.hub.boot)
})

const inDays = (days: number): Date => new Date(Date.now() + days * 86_400_000)

t.test('files that have changed are used, broken ones are not, and expiry is reported once', async t => {
  const { authority, server } = makeSigned()
  const first: ClusterSecrets = {
    etcd: { endpoints: [], ca: authority.cert, cert: server.cert, key: server.key, password: 'pw-before' }
  }
  let now = first
  const used: ClusterSecrets[] = []
  const told: string[] = []
  const renewing = startRenewing({
    secrets: first,
    reread: async () => now,
    use: next => void used.push(next),
    report: { info: line => void told.push(line), warn: line => void told.push(line) },
    expiry: createExpiryWarnings(line => void told.push(line), { now: Date.now }),
    everyMs: 5
  })
  t.teardown(() => renewing.stop())
  t.equal(await renewing.reload(), null)
  now = { etcd: { ...first.etcd, password: 'pw-after' } }
  await until(() => told.includes('Read again: the password of etcd'))
  t.same(used, [now])

  const soon = makeCertificate({ issuer: authority, to: inDays(3) })
  now = { etcd: { ...now.etcd, cert: soon.cert } }
  await until(() => told.some(line => /cannot be read again, the previous ones stay in use/.test(line)))
  t.equal(used.length, 1, 'a certificate without its key')
  now = { etcd: { ...now.etcd, key: soon.key } }
  await until(() => used.length === 2)
  await until(() => told.some(line => /The certificate for etcd expires on/.test(line)))
  const looks = told.length
  t.equal(await renewing.reload(), null)
  t.equal(told.length, looks, 'it is reported once')
  now = { ...now, hubCa: makeCertificate({ isAuthority: true, to: inDays(-1) }).cert }
  t.equal(await renewing.reload(), 'the authority of the hubs')
  t.match(told.at(-1), /The authority of the hubs expired on/)
  t.notMatch(told.join('\n'), /pw-/, 'no password is told')
})

t.test('a hub goes on after the password and the authority of etcd were replaced', { skip: withoutEtcd() }, async t => {
  const etcd = await anEtcd(t)
  const stage = hubsOn(t, etcd.options)
  const hub = await stage.open('h1', { limits: { probeMs: 200 } })
  await stage.leader()
  await put(hub, 'a', '1')
  await etcd.ask('/v3/auth/user/changepw', { name: 'svc', password: 'another' })
  const write = (value: string) =>
    put(hub, 'a', value).then(
      () => true,
      () => false
    )
  await until(async () => !(await write('2')), { what: 'a refused write' })
  const wrong = makeSigned().authority.cert
  hub.renewEtcd({ ...etcd.options, ca: wrong, password: 'another' })
  t.notOk(await write('3'), 'another authority is believed from then on')
  hub.renewEtcd({ ...etcd.options, password: 'another' })
  await until(() => write('4'), { what: 'a write with the new password' })
  t.equal(readSettings(hub)['a'], '4')
})
