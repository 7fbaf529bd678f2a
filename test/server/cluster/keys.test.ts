import t from 'tap'
import { createReplicatedKeys, createReplicatedToken } from '../../../lib/server/cluster/keys.js'
import { openStage } from '../../support/store.js'

t.test('two hubs have the same keys', async t => {
  const { store } = await openStage(t)
  const [one, other] = [createReplicatedKeys(store), createReplicatedKeys(store)]
  t.equal(one.session.current(), null)
  let removed = 0
  const session = await one.session.ensure(async () => void removed++)
  t.strictSame(await other.session.ensure(async () => void removed++), session)
  t.strictSame(other.session.current(), session)
  t.equal(removed, 1, 'only a new key ends the sessions')
  t.match(await one.variables.find(), { key: null, isMissing: true })
  const variables = await one.variables.create()
  t.strictSame(await other.variables.create(), variables)
  t.strictSame(await other.variables.find(), { key: variables })
  const { signers } = await one.server.signers(null)
  t.equal((await other.server.signers(null)).signers[0]?.verifierKey, signers[0]?.verifierKey)
})

t.test('the key of the server is replaced for all hubs', async t => {
  const { store } = await openStage(t)
  const { origin } = await createReplicatedKeys(store).server.signers(null)
  const { after } = await createReplicatedKeys(store).server.rotate(origin)
  const { signers } = await createReplicatedKeys(store).server.signers(origin)
  t.equal(signers[0]?.verifierKey, after.verifierKey)
  t.equal(signers.length, 2, 'the earlier key signs, too')
})

t.test('the admin token is the same on all hubs, and changes on all', async t => {
  const { store } = await openStage(t)
  const [one, other] = [createReplicatedToken(store), createReplicatedToken(store)]
  t.throws(() => one.current(), { code: 'no_admin_token' })
  await t.rejects(one.change('short'), { code: 'invalid_field' })
  await one.change('a-new-admin-token-0123456789')
  t.ok(other.verify('a-new-admin-token-0123456789'))
  t.notOk(other.verify('another'))
  await other.override('another')
  t.notOk(other.verify('another'), 'there is no token of one hub')
})
