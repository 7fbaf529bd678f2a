import t from 'tap'
import type { Test } from 'tap'
import { createPublicKey, verify } from 'node:crypto'
import { Keeper } from '../../../lib/core/audit/keeper.js'
import { createKeyring, createStreamReader, readSession } from '../../../lib/fleet/agent/from-hub.js'
import { createVoice, lineOfProtocol1, releaseTextOfProtocol1 } from '../../../lib/fleet/hub/voice.js'
import { systemActor } from '../../../lib/model/audit.js'
import { type DesiredLine, hubKeyText, type ReleaseDocument, releaseText } from '../../../lib/model/fleet-wire.js'
import { openFleet } from '../../support/fleet-stage.js'
import { insertDeployment } from '../../../lib/core/store/tables/deployments.js'
import { updateProject } from '../../../lib/core/store/tables/projects.js'
import { aDeployment } from '../../core/store/stage.js'
import { beginRollout } from '../../support/fleet-rollout.js'

const asked = { nodeId: 'node_a', session: 's', counter: 3, protocol: 2 }
const input = (number: number): DesiredLine => ({ type: 'input', id: 'r', number, bytes: 'bHM=' })

async function openVoice(t: Test) {
  const { hub, store, clock, ids, serverKey } = await openFleet(t, ['a'])
  const keeper = new Keeper({ store, clock, ids, key: serverKey, onError: error => t.fail(String(error)) })
  const { key } = hub
  const known: string[] = []
  const keyring = createKeyring((await key.current()).publicKey, text => void known.push(text))
  return { key, clock, keyring, known, rotate: () => keeper.rotateKey(systemActor) }
}

t.test('the node reads what the hub says, and learns a new key in between', async t => {
  const { key, clock, keyring, known, rotate } = await openVoice(t)
  const say = createVoice({ key, clock }, asked)
  const read = createStreamReader({ asked, keyring, nowMs: () => 0 })
  const heard = async (...lines: DesiredLine[]) =>
    (await say(lines))
      .trim()
      .split('\n')
      .map(text => read(text))
  t.same(await heard({ type: 'heartbeat' }, input(1)), [{ type: 'heartbeat' }, input(1)])
  await rotate()
  t.same(await heard(input(2)), [null, input(2)])
  t.same(known, [(await key.current()).publicKey])
  await rotate()
  t.same(await heard(input(3)), [null, input(3)])
  await rotate()
  await rotate()
  await t.rejects(say([input(4)]), { code: 'server_key' }, 'a new session says how the keys follow')
})

t.test('the begin of a session names all keys', async t => {
  const { key, keyring, known, rotate } = await openVoice(t)
  await rotate()
  await rotate()
  const begun = { nodeId: 'node_a', counter: 'nonce' }
  const answer = await key.greet({ ...begun, session: 's' })
  t.equal(readSession(answer, { address: 'a', ...begun }, keyring), 's')
  t.same(known, [(await key.current()).publicKey])
})

t.test('an agent of protocol 1 gets lines with the signatures that it checks', async t => {
  const { key, clock, rotate } = await openVoice(t)
  const say = createVoice({ key, clock }, { ...asked, protocol: 1 })
  const said = async (line: DesiredLine) =>
    (await say([line]))
      .trim()
      .split('\n')
      .map(text => JSON.parse(text) as object)
  const { sign } = await key.current()
  t.same(await said(input(1)), [{ ...input(1), signature: sign('svc-agent-input 1\nnode_a\ns\nr\n1\nbHM=\n') }])
  t.same(await said({ type: 'heartbeat' }), [{ type: 'heartbeat' }])
  await rotate()
  t.match(await said({ type: 'heartbeat' }), [{ type: 'key' }, { type: 'heartbeat' }])
})

function isSigned(text: string, { publicKey, signature }: { publicKey: string; signature: string }): boolean {
  const x = Buffer.from(publicKey, 'base64').toString('base64url')
  const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' })
  return verify(null, Buffer.from(text), key, Buffer.from(signature, 'base64'))
}

t.test('signs with the key of the server, and says how a new key follows from the earlier one', async t => {
  const { hub, store, clock, ids, serverKey } = await openFleet(t)
  const keeper = new Keeper({ store, clock, ids, key: serverKey, onError: error => t.error(error) })
  const before = await hub.key.current()
  t.ok(isSigned('text', { publicKey: before.publicKey, signature: before.sign('text') }))
  t.same(hub.key.all(), [])
  await keeper.rotateKey(systemActor)
  await keeper.rotateKey(systemActor)
  const after = await hub.key.current()
  const lines = hub.key.all()
  t.same(hub.key.after(before.publicKey), lines)
  t.same(hub.key.after(after.publicKey), [])
  t.equal(lines.length, 2)
  t.equal(lines[1]?.hubKey, after.publicKey)
  let { publicKey } = before
  for (const { hubKey, signature } of lines) {
    t.ok(isSigned(hubKeyText(hubKey), { publicKey, signature }))
    publicKey = hubKey
  }
})

const askedBefore2 = { nodeId: 'n1', session: 's', counter: 1 }

t.test('orders and relayed requests are signed as agents of protocol 1 check them', async t => {
  const order = { projectId: 'p', rolloutId: 'ro', number: 4, attempt: 2, action: 'swap', deployId: 'd' } as const
  const archive = { treeSha256: 'aa', archiveSha256: 'bb', archiveBytes: 10 }
  for (const [line, signature] of [
    [{ type: 'order', epoch: 'e', ...order, ...archive }, 'svc-agent-order 1\nn1\np\nro\n4\n2\nswap\nd\naa\nbb\n10\n'],
    [{ type: 'relay', id: 'r', request: '{}' }, 'svc-agent-relay 1\nn1\ns\nr\n{}\n'],
    [{ type: 'input', id: 'r', number: 3, bytes: 'bHM=' }, 'svc-agent-input 1\nn1\ns\nr\n3\nbHM=\n']
  ] as Array<[DesiredLine, string]>)
    t.same(
      lineOfProtocol1(line, askedBefore2, text => text),
      { ...line, signature }
    )
  t.same(
    lineOfProtocol1({ type: 'unplaced', projectId: 'p' }, askedBefore2, text => text),
    { type: 'unplaced', projectId: 'p' }
  )
  t.equal(releaseTextOfProtocol1(askedBefore2, '{}'), 'svc-agent-release 1\nn1\ns\n{}\n')
})

const node = { nodeId: 'node_a', session: 'the-session', counter: 7, protocol: 2 }

t.test('describes a release for a node, with what the client has sent, signed', async t => {
  const stage = await openFleet(t, ['a'])
  const { hub, store, offers } = stage
  await store.write(tx => insertDeployment(tx, aDeployment({ message: 'a message' })))
  const offer = { offered: { origin: 'upload' as const, postDeploy: 'echo on' }, clientEnv: { STAGE: 'secret-text' } }
  const sealed = await offers.seal('dep_a', offer)
  t.notMatch(sealed, 'secret-text')
  await beginRollout(stage, {}, 'proj_a', { sealed })
  const { json, signature } = await hub.agents.document(node, 'dep_a')
  t.match(JSON.parse(json), {
    deployId: 'dep_a',
    projectName: 'Site',
    deployPath: '/srv/a',
    archiveSha256: 'archive',
    variables: [{ name: 'MODE', value: 'fast' }],
    message: 'a message',
    ...offer
  })
  t.notOk('token' in JSON.parse(json).project, 'no deploy token')
  const x = Buffer.from((await hub.key.current()).publicKey, 'base64').toString('base64url')
  const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' })
  const isSigned = (text: string, given = signature) =>
    verify(null, Buffer.from(text), key, Buffer.from(given, 'base64'))
  t.ok(isSigned(releaseText(node, json)))
  for (const other of [{ session: 'another' }, { counter: 8 }, { nodeId: 'node_b' }])
    t.notOk(isSigned(releaseText({ ...node, ...other }, json)), 'it cannot be replayed')
  const earlier = await hub.agents.document({ ...node, protocol: 1 }, 'dep_a')
  t.ok(isSigned(`svc-agent-release 1\nnode_a\nthe-session\n${earlier.json}\n`, earlier.signature))
})

t.test('gives a node only releases of projects that are placed on it', async t => {
  const stage = await openFleet(t, ['a'])
  const { hub, offers } = stage
  t.equal(await offers.seal('dep_a', { offered: { origin: 'upload' }, clientEnv: {} }), null, 'nothing to encrypt')
  await beginRollout(stage)
  t.equal(hub.agents.archiveOf('node_a', 'archive'), 'dep_a')
  for (const unknown of [
    () => hub.agents.archiveOf('node_a', 'another'),
    () => hub.agents.archiveOf('node_b', 'archive')
  ])
    t.throws(unknown, { code: 'not_found' })
  await t.rejects(hub.agents.document({ ...node, nodeId: 'node_b' }, 'dep_a'), { code: 'not_found' })
  await t.rejects(hub.agents.document(node, 'dep_b'), { code: 'not_found' })
})

t.test('says whether clients may send scripts, by the project or by the setting', async t => {
  const stage = await openFleet(t, ['a'])
  const { hub, store, mayScripts } = stage
  await beginRollout(stage)
  const said = async (): Promise<unknown> =>
    (JSON.parse((await hub.agents.document(node, 'dep_a')).json) as ReleaseDocument).project['allowClientScripts']
  const own = (allowClientScripts: boolean | null) =>
    store.write(tx => updateProject(tx, 'proj_a', { allowClientScripts }))
  for (const [project, setting, expected] of [
    [null, true, true],
    [null, false, false],
    [true, false, true],
    [false, true, false]
  ] as const) {
    await own(project)
    mayScripts.value = setting
    t.equal(await said(), expected, `${project}, ${setting}`)
  }
})
