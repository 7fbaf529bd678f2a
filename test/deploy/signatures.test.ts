/*
 * Signed releases: what the policy of a project says about them, and attacks on files, on the way back and on what waits. Those on
 * a push are in test/api/signature-attacks.test.ts.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import t, { type Test } from 'tap'
import { sshSigned } from '../../lib/core/proof/signature-formats.js'
import { readPublicKey } from '../../lib/core/proof/keys.js'
import { listDeployments } from '../../lib/core/store/tables/deployments.js'
import { insertSigningKey, updateSigningKey } from '../../lib/core/store/tables/signing-keys.js'
import type { DeployRequest } from '../../lib/deploy/requests.js'
import { createDeployer } from '../../lib/deploy/deployer.js'
import { otherThanSigned, signersFile } from '../../lib/deploy/signatures.js'
import { defaultSignatures, type SignaturePolicy } from '../../lib/model/policy.js'
import type { Project } from '../../lib/model/project.js'
import { admin, type DeployStage, deployStage } from '../support/deploy-stage.js'
import { sendChanges } from '../support/changes-stage.js'
import { zipOf } from '../support/zips.js'
import { aKey, digestOf, signedBy, statementOf, type TestKey } from '../support/signed-releases.js'
import { inTime } from '../support/until.js'

const files = { 'index.html': 'new', 'app.js': 'let x' }
const before = { 'index.html': 'old' }

interface Scene {
  stage: DeployStage
  shop: Project
  ana: TestKey
  bo: TestKey
  mallory: TestKey
}

async function scene(t: Test, policy: Partial<SignaturePolicy> = {}): Promise<Scene> {
  const stage = await deployStage(t)
  const [ana, bo, mallory] = [aKey('ana'), aKey('bo'), aKey('mallory')]
  await stage.store.write(tx => {
    insertSigningKey(tx, ana.row)
    insertSigningKey(tx, bo.row)
  })
  const shop = await stage.addProject({ name: 'shop' })
  await stage.deploy(shop, before)
  shop.policy = { signatures: { ...defaultSignatures, require: 'refuse', ...policy } }
  await stage.change(shop, { policy: shop.policy })
  return { stage, shop, ana, bo, mallory }
}

/** Returns the files of a target with their texts. */
function contents({ deployPath }: Project): Record<string, string> {
  return Object.fromEntries(
    readdirSync(deployPath)
      .filter(name => !name.startsWith('.'))
      .sort()
      .map(name => [name, readFileSync(join(deployPath, name), 'utf8')])
  )
}

t.test('a release with a good signature is deployed, and says who signed it', async t => {
  const { stage, shop, ana } = await scene(t)
  const sent = signedBy(statementOf(shop.id, files), ana)
  const row = await stage.deploy(shop, files, { sent })
  t.match(row, { status: 'success', signedBy: [{ key: ana.row.id, name: 'ana', fingerprint: ana.row.fingerprint }] })
  t.match(row.statement, { sequence: 100, sha256: digestOf(sent.statement) })
  t.match(await stage.output(row.id), `→ signed by ana (${ana.row.fingerprint})`)
  const list = await stage.deployer.attestations(row.id)
  t.strictSame(
    list.map(({ name }) => name),
    ['statement.json', '1.sig']
  )
  t.equal(Buffer.from((await stage.deployer.attestation(row.id, 'statement.json')).content).toString(), sent.statement)
  await t.rejects(stage.deployer.attestation(row.id, 'other'), { code: 'not_found' })

  t.test('a rollback to it, a promotion, and a repair need no other signature', async t => {
    const next = { 'index.html': 'newer' }
    const second = await stage.deploy(shop, next, {
      sent: signedBy(statementOf(shop.id, next, { sequence: 101 }), ana)
    })
    t.equal(second.status, 'success', second.errorMessage ?? '')
    const back = await (await stage.deployer.rollback(row.id, { actor: admin, mode: 'overlay' })).finished
    t.match(back, { status: 'success', signedBy: row.signedBy, treeSha256: row.treeSha256 }, back.errorMessage ?? '')
    writeFileSync(join(shop.deployPath, 'app.js'), 'edited')
    const repair = await stage.deployer.repair(shop.id, { actor: admin, signal: new AbortController().signal })
    t.equal((await repair.finished).status, 'success')
    t.equal(contents(shop)['app.js'], 'let x')
    const undo = await stage.deployer.undo(shop.id, { actor: admin })
    t.equal((await undo.finished).status, 'success')
  })
})

t.test('a policy that warns deploys, and says what is missing', async t => {
  const { stage, shop, ana, mallory } = await scene(t, { require: 'warn', threshold: 2 })
  const row = await stage.deploy(shop, files)
  t.match(await stage.output(row.id), /warning: Project shop takes only releases that 2 trusted keys signed/)
  const other = await stage.deploy(shop, files, { sent: signedBy(statementOf(shop.id, files), mallory) })
  t.match(await stage.output(other.id), /warning: .* is not a trusted key/)
  t.strictSame(other.signedBy, [])
  const one = await stage.deploy(shop, files, { sent: signedBy(statementOf(shop.id, files), ana) })
  t.equal(one.signedBy.length, 1)
  t.match(await stage.output(one.id), /warning: .*1 trusted key signed the release \(ana\), and 2 must/)
})

t.test('without a policy nothing is asked', async t => {
  const { stage, shop, mallory } = await scene(t, { require: 'off' })
  t.equal((await stage.deploy(shop, files)).status, 'success')
  const row = await stage.deploy(shop, files, { sent: signedBy(statementOf(shop.id, files), mallory) })
  t.match(row, { status: 'success', signedBy: [], statement: { sequence: 100 } })
})

t.test('the owner of the server demands signatures, whatever a project says', async t => {
  const { stage, shop, ana, mallory } = await scene(t, { require: 'off' })
  const path = signersFile(stage.home.directory)
  mkdirSync(dirname(path), { recursive: true })
  const raw = mallory.row.public
  const { key } = readPublicKey(raw)
  const spki = key.export({ type: 'spki', format: 'der' }).subarray(12)
  const head = Buffer.from('0000000b7373682d6564323535313900000020', 'hex')
  writeFileSync(path, `mallory namespaces="svc-deploy" ssh-ed25519 ${Buffer.concat([head, spki]).toString('base64')}\n`)
  const strict = createDeployer({ ...stage, requireSignatures: true })
  t.teardown(() => strict.stop({ wait: false }))
  const push = async (request: Partial<DeployRequest>) => {
    const received = await stage.deployer.receive(Readable.from([await zipOf(files)]), {
      limitBytes: 1e9,
      signal: new AbortController().signal
    })
    return strict.deploy(received, { projectId: shop.id, env: {}, actor: admin, ...request })
  }
  t.match(strict.signatureDemand(shop.id), { require: 'refuse', by: 'server', keys: ['mallory'] })
  await t.rejects(push({}), { code: 'signature_missing' })
  const fromHub = { origin: 'source deployment' } as const
  await t.rejects(push(fromHub), { code: 'signature_missing' }, 'nor does a hub that has removed them')
  const statement = statementOf(shop.id, files)
  await t.rejects(
    push({ sent: signedBy(statement, ana) }),
    { code: 'signature_unknown_key' },
    'the table does not count'
  )
  const signatures = [sshSigned(Buffer.from(statement), mallory.privateKey)]
  const row = await (await push({ sent: { statement, signatures } })).finished
  t.match(row, { status: 'success', signedBy: [{ name: 'mallory' }] })
})

t.test('the pre-deploy script runs after the archive was verified', async t => {
  const { stage, shop, ana } = await scene(t)
  const preDeploy = 'touch ran'
  const scripts = { preDeploy: digestOf(preDeploy) }
  const row = await stage.deploy(shop, files, {
    preDeploy,
    sent: signedBy(statementOf(shop.id, files, { scripts }), ana)
  })
  t.equal(row.status, 'success', row.errorMessage ?? '')
  const output = await stage.output(row.id)
  t.ok(output.indexOf('verified the archive before') < output.indexOf('pre-deploy script ('), output)
  const swapped = await stage.deploy(
    shop,
    { ...files, 'app.js': 'swapped' },
    {
      preDeploy: 'touch never',
      sent: signedBy(statementOf(shop.id, files, { scripts: { preDeploy: digestOf('touch never') } }), ana)
    }
  )
  t.match(
    swapped,
    { status: 'failed', errorMessage: /"app\.js" differs/ },
    'the path is named if a kept release has the tree'
  )
  t.notOk(existsSync(join(shop.deployPath, 'never')), 'the script never ran')
})

const inDays = (days: number): string => new Date(Date.now() + days * 86_400_000).toISOString()

t.test('a release that a hub calls an earlier one has no other variables than the signed ones', async t => {
  const { stage, shop, ana } = await scene(t)
  const sent = signedBy(statementOf(shop.id, files), ana)
  const request = { sent, env: { LD_PRELOAD_HINT: 'x' }, origin: 'source deployment' } as const
  await t.rejects(stage.push(shop, files, request), { code: 'signature_bad', kind: 'forbidden' })
  t.strictSame(contents(shop), before, 'the target is as it was')
})

t.test('more signatures than are read', async t => {
  const { stage, shop, ana } = await scene(t)
  const sent = signedBy(statementOf(shop.id, files), ...Array.from({ length: 17 }, () => ana))
  await t.rejects(stage.push(shop, files, { sent }), { code: 'signature_bad' })
})

t.test('attacks on the files', async t => {
  const { stage, shop, ana } = await scene(t)
  const sent = signedBy(statementOf(shop.id, files), ana)
  const other: Record<string, Record<string, string>> = {
    'a file with other contents': { ...files, 'app.js': 'let y' },
    'a file more': { ...files, 'shell.php': '<?php' },
    'a file less': { 'index.html': 'new' },
    'a file with another name': { 'index.html': 'new', 'App.js': 'let x' }
  }
  for (const [name, swapped] of Object.entries(other)) {
    const row = await stage.deploy(shop, swapped, { sent })
    t.match(row, { status: 'failed', errorMessage: /does not contain the files that were signed/, placed: null }, name)
    t.strictSame(contents(shop), before, `${name}: the target is as it was`)
  }
  t.match(otherThanSigned('a'), { code: 'tree_differs', message: /"a" differs/ })

  const row = await stage.deploy(shop, files, { sent })
  t.equal(row.status, 'success')
  const next = { ...files, 'index.html': 'third' }
  const third = await stage.deploy(shop, next, { sent: signedBy(statementOf(shop.id, next, { sequence: 101 }), ana) })
  t.equal(third.status, 'success', third.errorMessage ?? '')
  t.test('an upload of changes with other contents than the signed ones', async t => {
    const swapped = { ...files, 'app.js': 'evil' }
    const stolen = signedBy(statementOf(shop.id, files, { sequence: 102 }), ana)
    const changed = sendChanges(stage.deployer, shop, swapped, undefined, { sent: stolen })
    await t.rejects(changed, { code: 'tree_differs' })
    t.strictSame(contents(shop), next, 'the target is as it was')
    const sent = signedBy(statementOf(shop.id, files, { sequence: 103 }), ana)
    const good = await sendChanges(stage.deployer, shop, files, undefined, { sent })
    t.match(good, { status: 'success', signedBy: [{ name: 'ana' }] }, good.errorMessage ?? '')
    const again = signedBy(statementOf(shop.id, next, { sequence: 104 }), ana)
    t.match(await sendChanges(stage.deployer, shop, next, undefined, { sent: again }), { status: 'success' })
  })
  t.test('a kept archive that somebody changed', async t => {
    const archive = join(stage.home.deployments, `${row.id}.zip`)
    writeFileSync(archive, await zipOf({ ...files, 'app.js': 'evil' }))
    const back = await (await stage.deployer.rollback(row.id, { actor: admin, mode: 'overlay' })).finished
    t.match(back, { status: 'failed', errorMessage: /does not contain the files that were signed/ })
    t.strictSame(contents(shop), next)
  })
  t.test('a kept release that nobody signed', async t => {
    const oldest = listDeployments(stage.store, { projectId: shop.id, limit: 100 }).find(
      ({ statement, status, hasArtifact }) => hasArtifact && statement === null && status === 'success'
    )
    await t.rejects(stage.deployer.rollback(oldest?.id ?? '', { actor: admin, mode: 'overlay' }), {
      code: 'signature_missing'
    })
    await t.rejects(stage.deployer.rollback(oldest?.id ?? '', { actor: admin, mode: 'exact' }), {
      code: 'signature_missing'
    })
  })
})

t.test('attacks on the way back', async t => {
  const { stage, shop, ana } = await scene(t, { rollbackBySignature: 'refuse' })
  const first = await stage.deploy(shop, files, { sent: signedBy(statementOf(shop.id, files), ana) })
  const next = { 'index.html': 'third' }
  await stage.deploy(shop, next, { sent: signedBy(statementOf(shop.id, next, { sequence: 101 }), ana) })
  for (const mode of ['overlay', 'exact'] as const)
    await t.rejects(stage.deployer.rollback(first.id, { actor: admin, mode }), { code: 'signature_replayed' }, mode)
  await t.rejects(stage.deployer.undo(shop.id, { actor: admin }), { code: 'signature_replayed' })

  const other = await stage.addProject({ name: 'production', policy: shop.policy })
  await t.rejects(
    stage.deployer.promote(other.id, { from: first.id, actor: admin }),
    { code: 'signature_other_project' },
    'a signature for staging does not open production'
  )
  const both = signedBy(statementOf(shop.id, next, { sequence: 102, alsoFor: [other.id] }), ana)
  const third = await stage.deploy(shop, next, { sent: both })
  const promoted = await (await stage.deployer.promote(other.id, { from: third.id, actor: admin })).finished
  t.match(promoted, { status: 'success', signedBy: [{ name: 'ana' }] }, promoted.errorMessage ?? '')
})

t.test('a key that is revoked while a release waits', async t => {
  const { stage, shop, ana } = await scene(t)
  const startAt = new Date(Date.now() + 3000).toISOString()
  const run = await stage.push(shop, files, { sent: signedBy(statementOf(shop.id, files), ana), startAt })
  await stage.store.write(tx => updateSigningKey(tx, ana.row.id, { revokedAt: new Date().toISOString() }))
  // The timer of the deployment does not keep the process alive.
  const row = await inTime(run.finished)
  t.match(row, { status: 'failed', errorMessage: /was revoked/ })
  t.strictSame(contents(shop), before)
})

t.test('a key is revoked as of a time: what was accepted before stays valid', async t => {
  const { stage, shop, ana } = await scene(t)
  const first = await stage.deploy(shop, files, { sent: signedBy(statementOf(shop.id, files), ana) })
  const next = { 'index.html': 'third' }
  await stage.deploy(shop, next, { sent: signedBy(statementOf(shop.id, next, { sequence: 101 }), ana) })
  await stage.store.write(tx => updateSigningKey(tx, ana.row.id, { revokedAt: new Date(Date.now() + 1).toISOString() }))
  const back = await (await stage.deployer.rollback(first.id, { actor: admin, mode: 'overlay' })).finished
  t.equal(back.status, 'success', back.errorMessage ?? '')
  await stage.store.write(tx => updateSigningKey(tx, ana.row.id, { revokedAt: inDays(-1) }))
  await t.rejects(stage.deployer.rollback(first.id, { actor: admin, mode: 'overlay' }), {
    code: 'signature_unknown_key'
  })
})
