import t from 'tap'
import { namedSources } from '../../../lib/cli/log/log-names.js'
import type { LogSource } from '../../../lib/model/log-source.js'

const source = (id: string, projectId: string, label: string): LogSource => ({
  id,
  projectId,
  label,
  filePath: `/var/log/${label}`,
  kind: 'plain',
  sortOrder: 0,
  createdAt: '',
  updatedAt: ''
})

const known = {
  projects: [
    { id: 'p1', name: 'shop' },
    { id: 'p2', name: 'billing' },
    { id: 'p3', name: 'empty' },
    { id: 'p4', name: 'twin' },
    { id: 'p5', name: 'twin' }
  ],
  sources: [
    source('s1', 'p1', 'access.log'),
    source('s2', 'p1', 'error.log'),
    source('s3', 'p2', 'error.log'),
    source('s4', 'p2', 'a, b')
  ]
}

t.test('a name selects a log source, all sources of a project, or several sources', async t => {
  for (const [word, expected] of [
    ['s1', ['access.log']],
    ['access.log', ['access.log']],
    ['shop', ['access.log', 'error.log']],
    ['p2', ['error.log', 'a, b']],
    ['billing/error.log', ['error.log']],
    ['a, b', ['a, b']],
    ['access.log, s3', ['access.log', 'error.log']],
    ['shop,billing', ['shop/access.log', 'shop/error.log', 'billing/error.log', 'billing/a, b']],
    ['s1,shop', ['access.log', 'error.log']]
  ] as const) {
    t.same(
      namedSources(word, known).map(({ name }) => name),
      expected,
      word
    )
  }
})

t.test('an ambiguous, empty or unknown name is refused with the possible names', async t => {
  t.throws(() => namedSources('error.log', known), {
    code: 'ambiguous_source',
    message: /shop\/error\.log \(log source s2\), billing\/error\.log \(log source s3\)/
  })
  t.throws(() => namedSources('twin', known), {
    code: 'ambiguous_source',
    message: /twin \(project p4\), twin \(project p5\)/
  })
  t.throws(() => namedSources('empty', known), { code: 'no_sources', message: /"empty" has no log sources/ })
  t.throws(() => namedSources('acess.log', known), { code: 'unknown_source', message: /Did you mean "access\.log"/ })
  t.throws(() => namedSources('s1,nothing-like-it', known), { code: 'unknown_source' })
})
