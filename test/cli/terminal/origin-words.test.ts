import t from 'tap'
import { headline, messageWords, originWords, starterWords } from '../../../lib/cli/terminal/origin-words.js'
import type { ListedDeployment } from '../../../lib/model/deployment.js'
import type { Provenance } from '../../../lib/model/provenance.js'

const claim: Provenance = {
  source: 'cli',
  commit: '0123456789abcdef0123456789abcdef01234567',
  branch: 'main',
  tag: null,
  author: 'Ada',
  subject: 'Lower the prices',
  dirty: false,
  repository: null,
  ci: null,
  by: null
}
const row = {
  projectName: 'shop',
  env: 'production',
  message: null,
  rollbackOf: null,
  triggerSource: 'cli',
  provenance: claim
} as ListedDeployment
const ci = { system: 'Drone', run: '42', url: null, actor: 'ada' }

t.test('describes the origin of a deployment', async t => {
  t.equal(originWords(null), '')
  const { provenance: _, ...older } = row
  t.equal(originWords((older as ListedDeployment).provenance), '', 'an older server leaves it out')
  t.equal(headline(older as ListedDeployment), 'shop (production): cli')
  t.equal(originWords(claim), '0123456 main')
  t.equal(originWords({ ...claim, dirty: true, tag: 'v1' }), '0123456* v1')
  t.equal(originWords({ ...claim, commit: null }), 'main')
  const starters: Array<[Partial<ListedDeployment>, string]> = [
    [{ provenance: null }, 'cli'],
    [{}, 'cli (Ada)'],
    [{ provenance: { ...claim, author: null } }, 'cli'],
    [{ provenance: { ...claim, ci } }, 'Drone 42 (ada)'],
    [{ provenance: { ...claim, ci: { ...ci, run: null, actor: null } } }, 'Drone'],
    [{ provenance: { ...claim, source: 'panel', by: 'admin' } }, 'panel (admin)'],
    [{ provenance: { ...claim, source: 'panel' } }, 'panel'],
    [{ rollbackOf: 'dep_b', triggerSource: 'rollback' }, 'rollback of dep_b']
  ]
  for (const [change, words] of starters) t.equal(starterWords({ ...row, ...change }), words)
  t.equal(messageWords(row), 'Lower the prices')
  t.equal(messageWords({ ...row, message: 'Mine' }), 'Mine')
  t.equal(messageWords({ ...row, provenance: null }), '')
  t.equal(headline(row), 'shop (production): Lower the prices (0123456 main), cli (Ada)')
  t.equal(headline({ ...row, provenance: null }), 'shop (production): cli')
  t.equal(headline({ ...row, projectName: 'a\nb' }), 'a\\nb (production): Lower the prices (0123456 main), cli (Ada)')
})
