import { join } from 'node:path'
import type { Test } from 'tap'
import { startServe } from './serve-process.js'

/**
 * A server with one project, `shop` in `<cwd>/www`, and how the command line is run there: by its administrator, and by
 * who has the deploy token of the project.
 */
export async function serveShop(t: Pick<Test, 'teardown' | 'testdir'>, files: Parameters<Test['testdir']>[0] = {}) {
  const cwd = t.testdir(files)
  const server = await startServe(t, cwd)
  const shop = await server.createProject({ name: 'shop', deployPath: join(cwd, 'www') })
  const admin = { cwd, env: { SVC_SERVER_URL: server.url, SVC_TOKEN: server.adminToken } }
  const pusher = { cwd, env: { SVC_SERVER_URL: server.url, SVC_DEPLOY_TOKEN: shop.token } }
  return { cwd, server, shop, admin, pusher }
}
