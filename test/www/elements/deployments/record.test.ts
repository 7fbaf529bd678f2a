import '../../../support/without-dom.js'
import t from 'tap'
import type { ListedDeployment } from '../../../../lib/model/deployment.js'
import type { Provenance } from '../../../../lib/model/provenance.js'
import { originRows, outside, senderWords } from '../../../../www/elements/deployments/record.js'
import { commitTitle, commitWords } from '../../../../www/elements/base/words.js'

const claim: Provenance = {
  source: 'cli',
  commit: '0123456789abcdef0123456789abcdef01234567',
  branch: 'main',
  tag: null,
  author: null,
  subject: null,
  dirty: false,
  repository: null,
  ci: null,
  by: null
}

t.test('formats the commit and the sender', async t => {
  t.equal(commitWords(claim), '0123456')
  t.equal(commitWords({ ...claim, dirty: true }), '0123456*')
  t.equal(commitWords({ ...claim, commit: null }), null)
  t.equal(commitTitle(claim), claim.commit)
  t.match(commitTitle({ ...claim, dirty: true }), /^0123.*uncommitted/)
  const ci = { system: 'Drone', run: null, url: null, actor: null }
  const cases: Array<[Provenance | null, 'cli' | 'rollback', string]> = [
    [null, 'cli', 'a push'],
    [claim, 'cli', 'a push'],
    [{ ...claim, ci }, 'cli', 'a push by Drone'],
    [claim, 'rollback', 'a rollback'],
    [{ ...claim, source: 'panel' }, 'cli', 'the panel'],
    [{ ...claim, source: 'panel', by: 'admin' }, 'cli', 'admin, from the panel']
  ]
  for (const [provenance, triggerSource, words] of cases) t.equal(senderWords({ provenance, triggerSource }), words)
})

t.test('lists only known facts, and links only http and https', async t => {
  const row = { projectId: 'proj_a', provenance: claim } as ListedDeployment
  t.strictSame(originRows({ ...row, provenance: null }), [])
  t.strictSame(
    originRows(row)
      .filter(([, value]) => value !== null && value !== undefined)
      .map(([name]) => name),
    ['Commit', 'Branch']
  )
  for (const address of ['javascript:alert(1)', 'data:text/html,x', '//evil.test', 'ftp://x'])
    t.equal(outside(address, 'words'), 'words', address)
  t.not(outside('https://ci.test/42', 'words'), 'words')
})
