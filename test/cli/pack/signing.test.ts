/* What a push is refused for before it is packed, and what its server asks for. test/cli/commands/keys.test.ts signs. */
import t from 'tap'
import { checkSigning, demandLine } from '../../../lib/cli/pack/signing.js'
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
