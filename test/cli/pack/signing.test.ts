/* What a push is refused for before it is packed, and what its server asks for. test/cli/commands/keys.test.ts signs. */
import t from 'tap'
import type { Context } from '../../../lib/cli/command.js'
import { attach, checkSigning, demandLine } from '../../../lib/cli/pack/signing.js'
import { readStatement } from '../../../lib/core/proof/statement.js'
import type { SignatureDemand } from '../../../lib/model/access.js'

const demand: SignatureDemand = { require: 'refuse', threshold: 2, sbom: 'require', by: 'server', keys: ['ana', 'bo'] }
const permit = { features: ['signatures'], signatures: demand } as never
const nobody = { isSigned: false, hasSbom: false }
const ana = { isSigned: true, hasSbom: false }

t.test('a push that the server would refuse is not packed', async t => {
  t.throws(() => checkSigning(nobody, permit), { code: 'signature_missing', message: /2 keys of: ana, bo/ })
  t.throws(() => checkSigning(ana, permit), { code: 'sbom_missing' })
  t.doesNotThrow(() => checkSigning({ ...ana, hasSbom: true }, permit))
  t.throws(() => checkSigning(ana, { features: [] } as never), { code: 'server_too_old' })
  t.throws(() => checkSigning({ ...nobody, hasSbom: true }, null), { code: 'server_too_old', message: /lists of/ })
  t.throws(() => checkSigning({ ...nobody, cure: 'svc bundle ' }, permit), {
    message: /Sign it: svc bundle --sign-key$/
  })
  t.doesNotThrow(() => checkSigning(nobody, null))
})

t.test('what a server asks for is one line', async t => {
  t.equal(demandLine({ ...demand, require: 'off', sbom: 'off' }), 'no signature is needed')
  t.match(demandLine({ ...demand, keys: [] }), 'no key is trusted')
  t.match(demandLine({ ...demand, by: 'project' }), 'the project says')
})

t.test('whatever the directory is called, the server can read the statement', async t => {
  const signer = { sign: async () => ({ signature: 'x', who: 'ana' }) }
  const signing = { signers: [signer], alsoFor: [], days: 1, sbom: null }
  const tree = { treeSha256: 'a'.repeat(64), entries: [] }
  const signable = { projectId: 'proj_shop', tree, fields: {}, message: null, provenance: null }
  const names = { long: 'n'.repeat(255), wide: '名'.repeat(85), lines: 'a\nb', emoji: `a${'😀'.repeat(60)}`, root: '' }
  for (const [what, name] of Object.entries(names)) {
    const context = { cwd: `/${name}`, output: { note: () => {} } } as unknown as Context
    const { statement = '' } = await attach(signing, signable, context)
    t.match(readStatement(Buffer.from(statement)), { projectId: 'proj_shop' }, what)
  }
})
