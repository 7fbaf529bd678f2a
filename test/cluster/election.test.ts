import t from 'tap'
import { createElection, type Term } from '../../lib/cluster/election.js'
import { startEtcd, withoutEtcd } from '../support/etcd.js'
import { until } from '../support/until.js'
import { aLog } from './stage.js'

const skip = withoutEtcd()
const etcd = skip === false ? await startEtcd() : null
t.teardown(() => etcd?.close())
const { signal } = new AbortController()
const clock = { now: Date.now, elapsed: () => performance.now() }

async function aStage(leaseSeconds = 2) {
  const stage = await aLog((etcd as NonNullable<typeof etcd>).options)
  await stage.client.delete(stage.keys.leader)
  const of = (name: string, given: Partial<typeof clock> = {}) =>
    createElection({
      ...stage,
      history: stage.history.id,
      hub: { name, url: `https://${name}` },
      leaseSeconds,
      clock: { ...clock, ...given }
    })
  return { ...stage, of }
}

t.test('of ten hubs that campaign at once, one leads', { skip }, async t => {
  const { of, client, keys, close } = await aStage()
  t.teardown(close)
  const names = Array.from({ length: 10 }, (_, n) => `h${n}`)
  const terms = await Promise.all(names.map(name => of(name).campaign(signal)))
  const won = terms.filter((term): term is Term => term !== null)
  t.equal(won.length, 1)
  const found = (await client.range({ key: keys.leader })).keys[0] as { value: Buffer; createRevision: number }
  const leader = of('x').readLeader(found)
  t.equal(leader.name, names[terms.findIndex(term => term !== null)])
  t.equal(leader.revision, won[0]?.revision)
  await won[0]?.resign()
  t.notOk(won[0]?.isValid)
  const next = await of('h11').campaign(signal)
  t.ok((next as Term).revision > leader.revision, 'each term has a later revision')
  await next?.resign()
})

t.test('a lease is renewed as long as the hub lives', { skip }, async t => {
  const { of, close } = await aStage()
  t.teardown(close)
  const term = (await of('h1').campaign(signal)) as Term
  await new Promise(resolve => setTimeout(resolve, 4500))
  t.ok(term.isValid, 'after more than two times of the lease')
  t.equal(await of('h2').campaign(signal), null)
  await term.resign()
})

t.test('a term ends when the lease is gone in etcd, whatever the hub believes', { skip }, async t => {
  const { of, client, close } = await aStage()
  t.teardown(close)
  let lease = ''
  const grantLease = client.grantLease
  client.grantLease = async seconds => (lease = await grantLease(seconds))
  const term = (await of('h1').campaign(signal)) as Term
  await client.revokeLease(lease)
  await until(() => term.lost.aborted)
  t.notOk(term.isValid)
})

t.test('a hub that slept longer than its lease knows that its term may have ended', { skip }, async t => {
  const { of, close } = await aStage()
  t.teardown(close)
  let sleptMs = 0
  const term = (await of('h1', { elapsed: () => performance.now() + sleptMs }).campaign(signal)) as Term
  t.ok(term.isValid)
  sleptMs = 2500
  t.notOk(term.isValid, 'before any timer has run')
  await until(() => term.lost.aborted)
  await term.resign()
})
