/* What was sent about a release beside its files, and that it goes with its deployment. */
import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { createAttestations } from '../../lib/deploy/attestations.js'
import { createFiles } from '../../lib/deploy/files.js'
import { findAttestation } from '../../lib/core/store/tables/signing-keys.js'
import { deleteDeploymentsOf } from '../../lib/core/store/tables/deployments.js'
import { deployStage } from '../support/deploy-stage.js'
import { aKey, signedBy, statementOf } from '../support/signed-releases.js'

t.test('statement, signatures and components are listed, read and removed', async t => {
  const stage = await deployStage(t)
  const shop = await stage.addProject()
  const files = { 'a.txt': 'a' }
  const path = join(stage.home.tmp, 'sbom')
  const sbom = { path, bytes: 2, sha256: 'b'.repeat(64), startedAt: '', endedAt: '', discard: async () => {} }
  const plain = await stage.deploy(shop, files)
  t.strictSame(await stage.deployer.attestations(plain.id), [], 'an unsigned release lacks them')
  const components = [{ name: 'zlib', version: '1.3' }]
  const list = JSON.stringify({ bomFormat: 'CycloneDX', specVersion: '1.5', components })
  writeFileSync(path, list)
  const sent = signedBy(statementOf(shop.id, files), aKey('ana'), aKey('bo'))
  const row = await stage.deploy(shop, files, { sent, sbom })
  const all = createAttestations({ store: stage.store, files: createFiles(stage.home) })
  t.match(await all.attestations(row.id), [
    { name: 'statement.json', bytes: sent.statement.length },
    { name: '1.sig' },
    { name: '2.sig' },
    { name: 'sbom.json', type: 'application/json', bytes: list.length, components: 1 }
  ])
  t.strictSame(await all.attestations(row.id), await all.attestations(row.id), 'the same again')
  const kept = join(stage.home.deployments, `${row.id}.sbom.json`)
  writeFileSync(kept, list.replace(']', ',{"name":"log4j"}]'))
  t.match((await all.attestations(row.id)).at(-1), { components: 2 }, 'a list that was changed is counted again')
  writeFileSync(kept, 'torn')
  const [torn] = (await all.attestations(row.id)).filter(({ name }) => name === 'sbom.json')
  t.match(torn, { bytes: 4, components: undefined }, 'one that cannot be read is listed all the same')
  t.equal(Buffer.from((await all.attestation(row.id, 'sbom.json')).content).toString(), 'torn')
  t.equal(Buffer.from((await all.attestation(row.id, '2.sig')).content).toString(), sent.signatures[1])
  await t.rejects(all.attestation(row.id, '3.sig'), { code: 'not_found' })
  t.equal(existsSync(join(stage.home.deployments, `${row.id}.sbom.json`)), true)
  await stage.deployer.removeWith([row.id, plain.id], () => stage.store.write(tx => deleteDeploymentsOf(tx, shop.id)))
  t.equal(findAttestation(stage.store, row.id), undefined, 'they go with the record')
  t.strictSame(readdirSync(stage.home.deployments), [])
})
