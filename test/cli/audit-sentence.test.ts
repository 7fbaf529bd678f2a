import t from 'tap'
import { auditSentence } from '../../lib/cli/audit-sentence.js'

t.test('says what an export contains', async t => {
  t.equal(auditSentence({ entries: 1, removed: 0, omitted: 0 }), '1 entry')
  t.equal(auditSentence({ entries: 12, removed: 3, omitted: 4 }), '12 entries, 3 removed before, 4 not exported')
})
