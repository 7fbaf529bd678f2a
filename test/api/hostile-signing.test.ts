/* Statements, signatures, keys and lists of components that nobody's tool writes, over HTTP: each is refused by its code. */
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { envelopeText, sealed, bareEnvelope } from '../../lib/core/proof/statement.js'
import { statementType } from '../../lib/base/shared/statement-text.js'
import { eventsOf, type FormFields } from '../support/client.js'
import { startServer } from '../support/server.js'
import { aKey, signedBy, statementOf } from '../support/signed-releases.js'
import { zipOf } from '../support/zips.js'

t.test('hostile statements, signatures and lists', async t => {
  const stage = await startServer(t)
  const { client, as, sites, home } = stage
  const shop = await stage.createProject('shop')
  const [ana, mallory] = [aKey('ana'), aKey('mallory')]
  const files = { 'index.html': 'hello' }
  const file = { filename: 'site.zip', bytes: await zipOf(files) }
  const push = (more: FormFields) => as(shop.token).upload([['projectId', shop.id], ...more, ['file', file]])
  await client.post('/api/signing-keys', { public: ana.row.public, name: 'ana' })
  const policy = { signatures: { require: 'refuse', threshold: 1 } }
  t.equal((await client.put(`/api/projects/${shop.id}`, { ...shop, policy })).status, 200)
  const text = statementOf(shop.id, files)
  const by = ({ privateKey }: typeof ana, statement: string): FormFields => [
    ['statement', statement],
    ['signature', bareEnvelope(Buffer.from(statement), privateKey)]
  ]
  const put = (more: string): string => text.replace('"sequence":100', `"sequence":100,${more}`)
  const own = bareEnvelope(Buffer.from(text), ana.privateKey)
  const sig = (JSON.parse(own) as { signatures: [{ sig: string }] }).signatures[0].sig
  const named = (signature: object | object[]): string =>
    JSON.stringify({ payloadType: statementType, signatures: [signature].flat() })
  const keyid = ana.row.fingerprint

  // Signed by a trusted key, and still no statement.
  const statements: Record<string, string> = {
    'a number that is none': text.replace('"sequence":100', '"sequence":1e400'),
    'a number that programs round': text.replace('"sequence":100', '"sequence":9007199254740993'),
    'a number as text': text.replace('"sequence":100', '"sequence":"100"'),
    'a negative number': text.replace('"sequence":100', '"sequence":-1'),
    'a project as a list': text.replace(`"${shop.id}"`, `["${shop.id}"]`),
    'another project by a key that comes twice': put(`"projectId":"proj_other"`),
    'another project as the prototype': text.replace(
      `"projectId":"${shop.id}"`,
      `"__proto__":{"projectId":"${shop.id}"}`
    ),
    'scripts of the prototype': put('"scripts":{"__proto__":"x"}'),
    'a script that no step has': put(`"scripts":{"onFailure":"${'a'.repeat(64)}"}`),
    'a digest in capitals': text.replace(/"sha256":"[^"]+"/, found =>
      found.replace(/[a-f]/g, one => one.toUpperCase())
    ),
    'a time without its zone': put('"notAfter":"2199-01-01T00:00:00"'),
    'a time that is none': put('"notAfter":"never"'),
    nothing: 'null',
    'a list': `[${text}]`,
    'two documents': `${text}${text}`,
    'a comment': `${text}//`,
    'great depth': put(`"x":${'['.repeat(60_000)}${']'.repeat(60_000)}`),
    'many keys': put(`"x":{${Array.from({ length: 10_000 }, (_, at) => `"k${at}":0`).join(',')},"k7":1}`),
    'a NUL': put('"message":"a\\u0000b"'),
    'half a character': put('"message":"\\ud800"').replace(shop.id, 'proj_other')
  }
  for (const [name, statement] of Object.entries(statements)) {
    const { status, body } = await push(by(ana, statement))
    t.equal(status, 403, `${name}: ${JSON.stringify(body)}`)
    t.match(body.code, /^signature_(bad|other_project)$/, name)
  }

  // No signature of a trusted key.
  const signatures: Record<string, string> = {
    'none in the envelope': named([]),
    'a signature of another key with the name of a trusted one': bareEnvelope(
      Buffer.from(text),
      mallory.privateKey
    ).replace(mallory.row.fingerprint, keyid),
    'no bytes': named({ keyid, sig: '' }),
    'too many bytes': named({ keyid, sig: `${sig.slice(0, -2)}AAAA` }),
    'bytes after it': named({
      keyid,
      sig: Buffer.concat([Buffer.from(sig, 'base64'), Buffer.of(0)]).toString('base64')
    }),
    'another payload': envelopeText(sealed(statementType, Buffer.from('{}'), [ana.privateKey])),
    'the payload in another type': envelopeText(sealed('text/plain', Buffer.from(text), [ana.privateKey])),
    'a payload of null': `{"payload":null,${named({ keyid, sig }).slice(1)}`,
    'a prototype': `{"__proto__":${named({ keyid, sig })}}`,
    'a number': '1e999',
    'great depth': '['.repeat(8000),
    'a mark of the byte order inside': own.replace('{', '{\u{feff}'),
    'two envelopes': `${own}${own}`
  }
  for (const [name, signature] of Object.entries(signatures)) {
    const { status, body } = await push([
      ['statement', text],
      ['signature', signature]
    ])
    t.equal(status, 403, `${name}: ${JSON.stringify(body)}`)
    t.match(body.code, /^signature_(bad|missing|unknown_key)$/, name)
  }

  const listed = (bytes: string | Buffer): FormFields => [
    ...by(ana, text),
    ['sbom', { filename: 'sbom.json', bytes: Buffer.from(bytes) }]
  ]
  const bom = (components: string): string => `{"bomFormat":"CycloneDX","components":${components}}`
  const many = Array.from({ length: 100_001 }, () => '{"name":"x"}').join(',')
  const lists: Record<string, [sbom: string | Buffer, status: number]> = {
    'another list than the signed one, or none': [bom('[]'), 403],
    'great depth': [bom(`${'[{"components":'.repeat(100_000)}[]${'}]'.repeat(100_000)}`), 403],
    'depth of lists': [bom(`${'['.repeat(1_000_000)}${']'.repeat(1_000_000)}`), 403],
    'too many components': [bom(`[${many}]`), 413],
    'no list': [bom('{"length":1}'), 403],
    'another kind': ['{"bomFormat":"Other"}', 400],
    'no JSON': ['<bom/>', 400],
    'other bytes': [Buffer.from([0xff, 0xfe, 0x7b, 0x7d]), 400],
    'a prototype': ['{"__proto__":{"bomFormat":"CycloneDX"}}', 400]
  }
  for (const [name, [sbom, expected]] of Object.entries(lists)) {
    const { status, body } = await push(listed(sbom))
    t.equal(status, expected, `${name}: ${JSON.stringify(body)}`)
  }

  const publics = ['', '\u{feff}ssh-ed25519 AAAA', 'ssh-ed25519 =', 'RW'.padEnd(56, 'A'), ana.row.public.toLowerCase()]
  for (const given of publics)
    t.equal((await client.post('/api/signing-keys', { public: given, name: 'x' })).status, 400, JSON.stringify(given))
  for (const name of ['аna', 'a\u{200b}na', 'ＡＮＡ', 'Ana', 'a.n.a', 'ana ', '__proto__', 'a  b', '"ana"'])
    t.match(
      (await client.post('/api/signing-keys', { public: mallory.row.public, name })).status,
      /^4/,
      `a key as ${JSON.stringify(name)}`
    )

  t.notOk(existsSync(join(sites, 'shop/index.html')), 'nothing was deployed')
  t.strictSame(readdirSync(home.tmp), [], 'nothing is left of it')
  t.strictSame((await client.get(`/api/logs?projectId=${shop.id}`)).body, [])

  // Another tool may write the same statement with spaces and other ends of lines: these bytes were signed.
  const spaced = `\r\n${JSON.stringify(JSON.parse(text), null, '\t').replaceAll('\n', '\r\n')}\r\n`
  const { signatures: spacedBy } = signedBy(spaced, ana, ana)
  const good = await push([['statement', spaced], ...spacedBy.map((one): [string, string] => ['signature', one])])
  t.match(eventsOf(good).pop(), { status: 'success' })
})
