import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startServe } from '../support/serve-process.js'
import { zipOf } from '../support/zip.js'
import { blocksOf, documents } from './document.js'

/* Runs each curl command that uploads, of every document: it ends with 0 only if the deployment succeeds. */

const recipes = documents.flatMap(document =>
  blocksOf(document)
    .filter(({ mark, text }) => mark.startsWith('sh') && text.includes('/api/deploy/upload'))
    .map(({ line, text }) => ({ place: `${document}:${line}`, text: text.slice(text.indexOf('curl ')) }))
)

t.test('a recipe ends with 0 only if the deployment succeeds', async t => {
  t.ok(recipes.length >= 3)
  const cwd = t.testdir({ site: {} })
  writeFileSync(join(cwd, 'build.zip'), await zipOf({ 'index.html': 'hello' }))
  const served = await startServe(t, cwd)
  const project = await served.createProject({ name: 'Site', deployPath: join(cwd, 'site') })
  function run(recipe: string, token: string): Promise<{ code: number; said: string }> {
    const text = recipe.replaceAll('https://deploy.example.org', served.url).replaceAll('proj_…', project.id)
    const env = { PATH: process.env['PATH'], SVC_SERVER: served.url, SVC_TOKEN: token, PROJECT: project.id }
    const tokens = { SVC_DEPLOY_TOKEN: token, DEPLOY_TOKEN: token }
    return new Promise(resolve => {
      execFile('sh', ['-c', text], { cwd, env: { ...env, ...tokens } }, (error, stdout, stderr) =>
        resolve({ code: error === null ? 0 : Number(error.code), said: stdout + stderr })
      )
    })
  }
  for (const { place, text } of recipes) {
    await served.changeProject(project.id, { postDeployScript: 'echo a line of the script' })
    t.match(await run(text, project.token), { code: 0, said: /a line of the script/ }, place)
    await served.changeProject(project.id, { postDeployScript: 'exit 3' })
    t.match(await run(text, project.token), { code: 1, said: /"status":"failed"/ }, place)
    t.match(await run(text, 'wrong-token'), { code: 1, said: /401/ }, place)
  }
})
