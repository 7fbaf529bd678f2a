import { readdirSync, readFileSync } from 'node:fs'
import t from 'tap'
import { auditActions, isAuditAction } from '../../../lib/base/shared/audit-actions.js'

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
