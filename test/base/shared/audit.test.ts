import t from 'tap'
import {
  type Change,
  detailLine,
  readChanges,
  writeChanges,
  auditActions,
  isAuditAction
} from '../../../lib/base/shared/audit.js'
import { readdirSync, readFileSync } from 'node:fs'

t.test('an entry lists at most a hundred changes, and says how many more there are', t => {
  const many: Change[] = Array.from({ length: 120 }, (_, index) => ({ field: `f${index}`, from: '1', to: '2' }))
  const { changes } = readChanges(writeChanges('shop', many))
  t.equal(changes.length, 101)
  t.same(changes.at(-1), { field: 'more', from: null, to: '20' })
  t.end()
})

t.test('a detail of an earlier version is all name', t => {
  for (const detail of ['name, description', 'until 2030: a → b', 'x\nnot a change', ''])
    t.same(readChanges(detail), { subject: detail, changes: [] })
  t.equal(detailLine('shop\na: 1 → 2\nb: 3'), 'shop; a: 1 → 2; b: 3')
  t.equal(detailLine('\na: 1 → 2'), 'a: 1 → 2')
  t.end()
})

const lib = new URL('../../../../lib/', import.meta.url)

t.test('every action that svc records is in the table', t => {
  const sources = (readdirSync(lib, { recursive: true }) as string[]).filter(name => /^(?!cli\/).*\.ts$/.test(name))
  const written = sources.flatMap(name =>
    [...readFileSync(new URL(name, lib), 'utf8').matchAll(/\baction(?: =|:)[^\n]*/g)].flatMap(([line]) =>
      [...line.matchAll(/'([a-z_]+\.[a-z_]+)'/g)].map(([, action]) => ({ action: action as string, name }))
    )
  )
  t.ok(written.length > 60)
  for (const { action, name } of written) t.ok(isAuditAction(action), `${action} in ${name}`)
  t.end()
})

t.test('each is named once, as noun and verb', t => {
  t.equal(new Set(auditActions).size, auditActions.length)
  for (const action of auditActions) t.match(action, /^[a-z_]+\.[a-z_]+$/)
  t.notOk(isAuditAction('project.created'))
  t.end()
})
