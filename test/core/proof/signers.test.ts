/* Who signed a statement, and whether what comes with the files is what was signed. */
import t from 'tap'
import { readPublicKey } from '../../../lib/core/proof/keys.js'
import { digestOf } from '../../../lib/core/proof/statement.js'
import { faultOfSbom, faultOfScripts, faultOfTimes, readSigned } from '../../../lib/core/proof/signers.js'
import { readStatement } from '../../../lib/core/proof/statement.js'
import { aKey, signedBy, statementOf, type TestKey } from '../../support/signed-releases.js'

const [ana, bo, mallory] = [aKey('ana'), aKey('bo'), aKey('mallory')]
const trust = (...keys: TestKey[]) => keys.map(({ row }) => ({ name: row.name, key: readPublicKey(row.public) }))
const text = statementOf('proj_1', { 'index.html': 'new' })

t.test('trusted keys and strangers are told apart, and a key counts once', async t => {
  const sent = signedBy(text, ana, ana, mallory)
  const { keys, strangers, statement } = readSigned(trust(ana, bo, ana), sent)
  t.same(
    keys.map(({ name }) => name),
    ['ana']
  )
  t.same(strangers, [mallory.row.fingerprint])
  t.equal(statement.projectId, 'proj_1')
  t.same(readSigned(trust(), sent).keys, [])
})

t.test('a signature of another statement is refused', async t => {
  const { signatures } = signedBy(statementOf('proj_2', {}), ana)
  t.throws(() => readSigned(trust(ana), { statement: text, signatures }), { code: 'signature_bad' })
  t.throws(() => readSigned(trust(ana), { statement: text, signatures: ['x'] }), { code: 'signature_bad' })
})

t.test('scripts, variables and components are exactly those that were signed', async t => {
  const patch = { scripts: { postDeploy: digestOf('restart') }, env: ['A'], sbomSha256: digestOf('{}') }
  const statement = readStatement(Buffer.from(statementOf('proj_1', {}, patch)))
  t.equal(faultOfScripts(statement, { postDeploy: 'restart', preDeploy: ' \n' }, ['A']), null)
  t.match(faultOfScripts(statement, {}, ['A']), { message: /script postDeploy is missing/ })
  t.match(faultOfScripts(statement, { postDeploy: 'rm' }, ['A']), { message: /postDeploy is not the one/ })
  t.match(faultOfScripts(statement, { postDeploy: 'restart', preDeploy: 'x' }, ['A']), { message: /preDeploy is not/ })
  t.match(faultOfScripts(statement, { postDeploy: 'restart' }, ['A', 'B']), { message: /variable B was not signed/ })
  t.match(faultOfScripts(statement, { postDeploy: 'restart' }, []), { message: /variable A is missing/ })
  t.equal(faultOfSbom(statement, digestOf('{}')), null)
  t.match(faultOfSbom(statement, null), { code: 'signature_bad' })
})

t.test('a key signs within its times', async t => {
  const times = { notBefore: '2026-01-02T00:00:00.000Z', notAfter: '2026-01-04T00:00:00.000Z' }
  t.match(faultOfTimes(times, '2026-01-01T00:00:00.000Z'), /signs only from/)
  t.equal(faultOfTimes(times, '2026-01-02T00:00:00.000Z'), null)
  t.match(faultOfTimes(times, '2026-01-04T00:00:00.000Z'), /has expired/)
  t.equal(faultOfTimes({ notBefore: null, notAfter: null }, '2030-01-01T00:00:00.000Z'), null)
})
