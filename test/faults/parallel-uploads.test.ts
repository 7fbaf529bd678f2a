import t from 'tap'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Deployment } from '../../lib/model/deployment.js'
import { startServeProcess } from '../support/serve-process.js'
import { repetitions } from '../support/thorough.js'

const projectCount = 10
const uploadsPerProject = repetitions(6, 20)

t.test('many parallel uploads to ten projects: all recorded, none mixed', async t => {
  const directory = t.testdir({})
  const server = await startServeProcess(t, directory)
  const projects = await Promise.all(
    Array.from({ length: projectCount }, (_, index) =>
      server.createProject({ name: `project ${index}`, deployPath: join(directory, 'targets', String(index)) })
    )
  )

  const uploads = await Promise.all(
    projects.flatMap((project, index) =>
      Array.from({ length: uploadsPerProject }, async (_, turn) => {
        const mark = `${index}.${turn}`
        const { deployId, finished } = await server.upload(
          project,
          { 'mark.txt': mark, [`only-${index}.txt`]: mark },
          { message: mark }
        )
        const events = await finished
        return { project, index, mark, deployId, last: events.at(-1) }
      })
    )
  )

  t.equal(new Set(uploads.map(({ deployId }) => deployId)).size, projectCount * uploadsPerProject)
  t.ok(
    uploads.every(({ last }) => last?.['status'] === 'success'),
    'each upload heard of its success'
  )
  for (const [index, project] of projects.entries()) {
    const records = await server.api<Deployment[]>('GET', `/api/logs?projectId=${project.id}&limit=500`)
    const mine = uploads.filter(upload => upload.index === index)
    t.same(
      new Set(records.map(({ id }) => id)),
      new Set(mine.map(({ deployId }) => deployId)),
      `${project.name}: its own records`
    )
    t.ok(
      records.every(record => record.message === mine.find(({ deployId }) => deployId === record.id)?.mark),
      'each its own message'
    )
    const target = join(directory, 'targets', String(index))
    t.equal(readFileSync(join(target, 'mark.txt'), 'utf8'), records[0]?.message, 'the target has what came last')
    t.equal(readFileSync(join(target, `only-${index}.txt`), 'utf8'), records[0]?.message)
  }
})
