import '../../../support/without-dom.js'
import t from 'tap'
import type { Distance, FamilyMember } from '../../../../lib/model/family.js'
import { differenceOf } from '../../../../www/elements/projects/svc-families.js'

const member = (env: string, since: string, distance: Distance | null = null): FamilyMember => ({
  projectId: env,
  projectName: `shop-${env}`,
  env,
  release: {
    id: `dep_${env}`,
    message: null,
    triggerSource: 'cli',
    undoOf: null,
    provenance: null,
    treeSha256: env,
    since,
    isPromotable: true
  },
  nodes: null,
  distance,
  promotesTo: []
})

t.test('says how a release differs from the first environment', async t => {
  const first = member('dev', '2026-11-20T10:00:00.000Z')
  const words = (distance: Distance | null, since = '2026-11-20T10:00:00.000Z') =>
    differenceOf(member('live', since, distance), first)?.words ?? null
  for (const [releases, expected] of [
    [1, '1 release behind dev'],
    [12, '12 releases behind dev'],
    [-1, '1 release ahead of dev'],
    [-2, '2 releases ahead of dev']
  ] as const) {
    t.equal(words({ isSame: false, releases }), expected)
  }
  t.equal(words({ isSame: true, releases: 0 }), 'same files as dev')
  t.equal(words({ isSame: false, releases: null }, '2026-11-08T08:00:00.000Z'), 'other files than dev, 12 d 2 h older')
  t.equal(words({ isSame: false, releases: null }, '2026-11-20T10:30:00.000Z'), 'other files than dev, 30 min newer')
  t.equal(words(null), null)
  t.equal(differenceOf({ ...first, release: null }, first), null)
})
