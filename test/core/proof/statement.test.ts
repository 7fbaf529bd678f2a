/* Statements: written and read, in-toto's own form, and what is none. */
import t from 'tap'
import type { StatedOrigin } from '../../../lib/base/shared/statement-text.js'
import { readStatement, writeStatement } from '../../../lib/core/proof/statement.js'
import type { Statement } from '../../../lib/model/statement.js'

const statement: Statement = {
  name: 'shop',
  treeSha256: 'a'.repeat(64),
  projectId: 'proj_abcdefghijklmnop',
  alsoFor: ['proj_qrstuvwxyzabcdef'],
  message: 'New prices',
  scripts: { preDeploy: 'b'.repeat(64) },
  env: ['STAGE'],
  notAfter: '2027-01-01T00:00:00.000Z',
  sequence: 184,
  builder: 'svc/1.2 ci-runner-3',
  sbomSha256: 'c'.repeat(64)
}
const origin: StatedOrigin = {
  commit: 'd'.repeat(40),
  repository: 'https://example.com/shop.git',
  invocationId: '17',
  startedOn: '2026-12-01T00:00:00.000Z'
}
const text = writeStatement(statement, origin).toString()

t.strictSame(readStatement(Buffer.from(text)), statement, 'a statement is read as it was written')
t.match(text, '"resolvedDependencies":[{"uri":"git+https://example.com/shop.git"')
const bare: Statement = {
  ...statement,
  alsoFor: [],
  message: null,
  scripts: {},
  env: [],
  notAfter: null,
  sbomSha256: null
}
t.strictSame(readStatement(writeStatement(bare, { ...origin, commit: null, invocationId: null })), bare)

const bad: Record<string, string | Buffer> = {
  'no JSON': '{',
  'no UTF-8': Buffer.from([0x22, 0xff, 0x22]),
  'a mark before it': `\ufeff${text}`,
  'another type': text.replace('Statement/v1', 'Statement/v0.1'),
  'another predicate': text.replace('provenance/v1', 'provenance/v0.2'),
  'another build': text.replace('urn:svc:push:v1', 'urn:svc:push:v2'),
  'two subjects': text.replace('"subject":[{', '"subject":[{"name":"x","digest":{"sha256":""}},{'),
  'no digest': text.replace('"sha256":"aaaa', '"sha512":"aaaa'),
  'a key twice': text.replace('"projectId":', '"projectId":"proj_other","projectId":'),
  'a key twice, once with escapes': text.replace('"projectId":', '"projec\\u0074Id":"proj_other","projectId":'),
  'a script of another name': text.replace('"preDeploy"', '"rollback"'),
  'a negative sequence': text.replace('"sequence":184', '"sequence":-1'),
  'a time without zone': text.replace('2027-01-01T00:00:00.000Z', '2027-01-01T00:00:00'),
  'too deep': `{"a":${'['.repeat(100)}${']'.repeat(100)}}`,
  'too long': text + ' '.repeat(256 * 1024)
}
for (const [name, given] of Object.entries(bad))
  t.throws(() => readStatement(Buffer.from(given)), { code: 'signature_bad' }, name)
