/* The statement that `svc push` and the panel sign. test/browser/signatures.test.ts signs one in a browser. */
import t from 'tap'
import { envelopeHead, statedTimes, statementText, statementType } from '../../../lib/base/shared/statement-text.js'
import { readStatement, signedBytes } from '../../../lib/core/proof/statement.js'

t.test('a statement without anything that is optional is read as it was', async t => {
  const nowMs = Date.parse('2026-11-30T12:00:00.900Z')
  const release = {
    name: 'shop',
    treeSha256: 'a'.repeat(64),
    projectId: 'proj_a',
    alsoFor: [],
    message: null,
    scripts: {},
    env: [],
    ...statedTimes(nowMs),
    builder: 'svc panel',
    sbomSha256: null
  }
  t.match(release, { notAfter: '2026-12-30T12:00:00.900Z', sequence: Math.floor(nowMs / 1000) })
  t.match(statedTimes(nowMs, 1), { notAfter: '2026-12-01T12:00:00.900Z' })
  const origin = { commit: null, repository: null, invocationId: null, startedOn: '2026-11-30T12:00:00.000Z' }
  const text = statementText(release, origin)
  t.strictSame(readStatement(Buffer.from(text)), release)
  t.notMatch(text, /alsoFor|scripts|resolvedDependencies|byproducts|message/)
})

t.test('the head of what is signed has the sizes in bytes', async t => {
  const payload = Buffer.from('é')
  t.equal(envelopeHead('ü', 2, payload.length), 'DSSEv1 2 ü 2 ')
  t.equal(signedBytes(statementType, payload).toString(), `DSSEv1 28 ${statementType} 2 é`)
})
