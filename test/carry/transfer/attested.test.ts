/* Statements, signatures and lists of components in packages of export and import. */
import { readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { findDeployment } from '../../../lib/core/store/tables/deployments.js'
import { countSequence, findAttestation, highestSequence } from '../../../lib/core/store/tables/signing-keys.js'
import { isMadeBy, readSignatures } from '../../../lib/core/proof/signers.js'
import { readPublicKey } from '../../../lib/core/proof/keys.js'
import { planExport } from '../../../lib/carry/transfer/export.js'
import { importPackage } from '../../../lib/carry/transfer/import.js'
import { defaultSignatures } from '../../../lib/model/policy.js'
import type { Project } from '../../../lib/model/project.js'
import type { SigningKey } from '../../../lib/model/statement.js'
import { openImport, overwrite, request } from '../../support/import-stage.js'
import { aKey, digestOf, signedBy, statementOf } from '../../support/signed-releases.js'
import { open } from 'node:fs/promises'

const ana = aKey('ana')
const sbom = '{"bomFormat":"CycloneDX","specVersion":"1.6","components":[]}'
const id = `dep_${'a'.repeat(16)}`
const sent = signedBy(statementOf('proj_a', { 'a.txt': 'a' }, { sbomSha256: digestOf(sbom) }), ana)
const claim = {
  sha256: digestOf(sent.statement),
  sequence: 100,
  notAfter: null,
  builder: 'test',
  sbomSha256: digestOf(sbom)
}
const signers = [{ key: ana.row.id, name: 'ana', fingerprint: ana.row.fingerprint }]
const deployment = {
  id,
  projectId: 'proj_a',
  status: 'success',
  startTime: '2026-01-31T12:00:00.000Z',
  signedBy: signers,
  statement: claim,
  attested: sent
}
const project = { id: 'proj_a', name: 'a', deployPath: '/srv/svc-test/a', token: 'token-of-a-0123456789' }
const files = (change: object = {}, list: string = sbom) => ({
  'projects.json': [project],
  'deployments.json': [{ ...deployment, ...change }],
  [`components/${id}.json`]: list
})

t.test('statement, signatures and components go through an export and an import, and still verify', async t => {
  const first = await openImport(t)
  t.strictSame(first.signatures.signers()('proj_a', sent), [])
  await first.take(files())
  const path = join(first.directory, 'out.zip')
  const file = await open(path, 'wx')
  const asked = { projects: null, artifacts: false, logs: true, recent: null, ignore: [], ignoreBuiltin: false }
  await planExport(first.needs, { ...asked, actor: request.actor }).write(file, {})
  await file.close()
  const written = readFileSync(path)
  const second = await openImport(t)
  await second.trust(ana.row)
  writeFileSync(path, written)
  await importPackage(second.needs, path, request)
  const kept = findAttestation(second.store, id)
  t.match(kept, { statement: sent.statement, signatures: sent.signatures })
  t.not(kept?.acceptedAt, deployment.startTime, 'it counts as accepted now')
  const bytes = Buffer.from(kept?.statement ?? '')
  const [signature] = readSignatures(kept?.signatures ?? [], bytes)
  t.ok(signature && isMadeBy(signature, bytes, readPublicKey(ana.row.public)), 'the signature is that of the key')
  t.match(findDeployment(second.store, id), { signedBy: signers, statement: claim })
  t.equal(readFileSync(join(second.home.deployments, `${id}.sbom.json`), 'utf8'), sbom)
  await importPackage(second.needs, path, overwrite)
  t.strictSame(findAttestation(second.store, id), kept, 'what was accepted before stays so')
})

t.test('a record names the keys of which this server has verified the signatures', async t => {
  const mallory = aKey('mallory')
  const bySomebody = signedBy(sent.statement, mallory)
  const forged = {
    ...sent,
    signatures: [bySomebody.signatures[0]?.replace(mallory.row.fingerprint, ana.row.fingerprint)]
  }
  const cases: Array<[string, object, Partial<SigningKey>]> = [
    ['a key that is not trusted here', { attested: bySomebody }, {}],
    ['a forged signature', { attested: forged }, {}],
    ['a key that was revoked', {}, { revokedAt: '2020-01-01T00:00:00.000Z' }],
    ['a key of other projects', {}, { projectIds: ['proj_b'] }],
    ['no statement', { attested: null }, {}]
  ]
  for (const [name, change, key] of cases) {
    const { store, take, trust } = await openImport(t)
    await trust({ ...ana.row, ...key })
    await take(files(change))
    t.strictSame(findDeployment(store, id)?.signedBy, [], name)
  }
})

t.test('an import neither raises nor lowers the sequence that this server has verified', async t => {
  const { store, take, trust, needs, signatures } = await openImport(t)
  await trust(ana.row)
  const strict = {
    id: 'proj_a',
    policy: { signatures: { ...defaultSignatures, require: 'refuse' } }
  } as unknown as Project
  const judge = (sequence: number) =>
    signatures.judge(strict, {
      sent: signedBy(statementOf('proj_a', { 'a.txt': 'a' }, { sequence }), ana),
      kind: 'push',
      offered: { origin: 'upload' },
      env: [],
      sbomSha256: null
    })
  const high = signedBy(statementOf('proj_a', { 'a.txt': 'a' }, { sequence: 2 ** 52 }), ana)
  const claimOf = ({ statement }: typeof sent, sequence: number) => ({
    statement: { ...claim, sha256: digestOf(statement), sequence, sbomSha256: null }
  })
  const plain = (change: object) => ({ 'projects.json': [project], 'deployments.json': [{ ...deployment, ...change }] })
  await take(plain({ attested: high, ...claimOf(high, 2 ** 52) }))
  t.match(findDeployment(store, id)?.signedBy, [{ name: 'ana' }])
  t.equal(highestSequence(store, 'proj_a'), null, 'a package with a later release shuts nobody out')
  t.match(judge(7).signedBy, [{ name: 'ana' }])

  // Now it is a release of this server.
  await needs.store.write(tx => countSequence(tx, id))
  t.throws(() => judge(7), { code: 'signature_replayed' })
  const low = signedBy(statementOf('proj_a', { 'a.txt': 'a' }, { sequence: 1 }), ana)
  for (const [name, change] of Object.entries({
    'an earlier statement': { attested: low, ...claimOf(low, 1) },
    'no statement': { attested: null, statement: null, signedBy: [] },
    'a failure': { attested: high, ...claimOf(high, 2 ** 52), status: 'failed' }
  })) {
    await take(plain(change), overwrite)
    t.equal(highestSequence(store, 'proj_a'), 2 ** 52, name)
    t.match(findDeployment(store, id), { signedBy: [{ name: 'ana' }], statement: { sequence: 2 ** 52 } }, name)
    t.equal(findAttestation(store, id)?.statement, high.statement, name)
  }
  t.throws(() => judge(7), { code: 'signature_replayed' })
})

t.test('what is not that of its record is left out, and with it who signed', async t => {
  for (const [name, change] of Object.entries({
    'no statement': { attested: null },
    'the statement of another release': { attested: signedBy(statementOf('proj_b', {}), ana) },
    'a record without a claim': { statement: null }
  })) {
    const { store, take } = await openImport(t)
    await take({ 'projects.json': [project], 'deployments.json': [{ ...deployment, ...change }] })
    t.equal(findAttestation(store, id), undefined, name)
    t.strictSame(findDeployment(store, id)?.signedBy, [], name)
  }
})

t.test('hostile statements and lists of components are refused, and nothing is imported', async t => {
  const { store, home, take } = await openImport(t)
  const field = `components/${id}.json`
  const refused: Record<string, [object, { code?: string; field?: string }]> = {
    'a statement that is too large': [
      files({ attested: { ...sent, statement: 'x'.repeat(300_000) } }),
      { field: 'deployments.json[0].attested.statement' }
    ],
    'a signature that is too large': [files({ attested: { ...sent, signatures: ['x'.repeat(20_000)] } }), {}],
    'too many signatures': [files({ attested: { ...sent, signatures: Array(17).fill('x') } }), {}],
    'a statement that is no text': [files({ attested: { ...sent, statement: 1 } }), {}],
    'a list that is not the signed one': [files({}, sbom.replace('1.6', '1.5')), { code: 'broken_package', field }],
    'a list that is no JSON': [files({}, 'x'), { code: 'broken_package', field }],
    'a list that is too large': [files({}, `${sbom}${' '.repeat(11_000_000)}`), { code: 'broken_package', field }]
  }
  for (const [name, [given, fault]] of Object.entries(refused)) {
    await t.rejects(
      take(given as Record<string, unknown>),
      { kind: 'invalid', ...fault } as { kind: string; code: string },
      name
    )
    t.equal(findDeployment(store, id), undefined, name)
    t.strictSame(readdirSync(home.deployments), [], name)
    t.strictSame(readdirSync(home.tmp), [], name)
  }
  writeFileSync(join(home.deployments, `${id}.sbom.json`), 'old')
  const broken = { ...store, write: () => Promise.reject(new Error('the disk is full')) }
  await t.rejects(take(files(), request, { store: broken }), { message: 'the disk is full' })
  t.equal(readFileSync(join(home.deployments, `${id}.sbom.json`), 'utf8'), 'old', 'an import that fails puts it back')
})
