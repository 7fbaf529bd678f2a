import t from 'tap'
import { userFindings } from '../../../lib/cli/doctor/users.js'
import type { ReportedProject } from '../../../lib/model/access-report.js'

const project = (name: string, fields: Partial<ReportedProject> = {}): ReportedProject => {
  return { id: `proj_${name}`, name, clientScripts: true, runAs: null, tokenIds: [], ...fields }
}

t.test('names the projects that have no user of their own', async t => {
  t.same(userFindings({ projects: [] }), [])
  t.match(userFindings({ projects: [project('a', { runAs: 'shop' })] }), [{ result: 'pass', advice: null }])
  const mixed = [project('a', { runAs: 'shop' }), project('b'), project('c', { clientScripts: false })]
  t.match(userFindings({ projects: mixed }), [
    { result: 'warning', detail: 'without runAs: "b", "c"', advice: /svc projects set <project> --run-as/ }
  ])
  t.match(userFindings({ projects: [project('c', { clientScripts: false })] }), [
    { result: 'pass', detail: /"c"; no push/ }
  ])
  const many = Array.from({ length: 12 }, (_, index) => project(`p${index}`))
  t.match(userFindings({ projects: many }), [{ detail: /"p9", and 2 more$/ }])
})
