import { join } from 'node:path'
import { createHash } from 'node:crypto'
import { type FileHandle, realpath } from 'node:fs/promises'
import { invalid, notFound, Refusal } from '../base/errors.js'
import { attachment, fileReply } from '../http/static/file.js'
import { json } from '../http/core/route.js'
import type { FileEntry, OwnedEntry } from '../model/manifest.js'
import { inclusions, type Project } from '../model/project.js'
import { type Inspect, readPreview } from '../core/install/browse.js'
import type { Deployer } from '../deploy/deployer.js'
import { encodeLines, ndjson } from '../http/streams.js'
import { createBudget } from '../base/budget.js'
import { readAt } from '../base/files.js'
import { tooMuch } from '../http/core/memory.js'
import { type ApiRequest, type Handler, param, queryChoice, queryPath, queryText, switchText } from './route.js'
import type { ApiServices } from './services.js'

/**
 * Handlers that list and read the files of a project's target (§4.4). They never leave the target. Files that may
 * contain secrets are listed, but their content is not shown.
 */
export async function fileHandlers({ projects, ...doors }: ApiServices) {
  const [targets, { secrets }] = await Promise.all([doors.targets(), doors.logs()])
  /** Checks both the requested path and the real path of the opened file, so that a link cannot bypass the check. */
  function inspect(deployPath: string, asked: string): Inspect {
    const named = { asked, field: 'path' }
    return ({ handle, path }) => {
      secrets.checkPath(join(deployPath, asked), named)
      secrets.checkPath(path, named)
      return secrets.checkOpened(handle, path, named)
    }
  }

  return {
    list: async request => {
      const project = projects.get(param(request, 'id'))
      const path = queryPath(request.query, 'path') ?? ''
      if (path === '') return json(await targets.list(project, path).catch(emptyIfMissing))
      return json(await targets.list(project, path))
    },

    preview: async request => {
      const project = projects.get(param(request, 'id'))
      const asked = filePath(request)
      return json(await readPreview(await targets.open(project, asked, inspect(project.deployPath, asked))))
    },

    /** Always an attachment, so that no file runs as a page of this origin. */
    download: async request => {
      const project = projects.get(param(request, 'id'))
      const asked = filePath(request)
      const name = asked.slice(asked.lastIndexOf('/') + 1)
      const headers = { 'content-disposition': attachment(name) }
      return fileReply({ file: () => targets.open(project, asked, inspect(project.deployPath, asked)), headers })
    }
  } satisfies Record<string, Handler>
}

function filePath({ query }: ApiRequest): string {
  const path = queryPath(query, 'path')
  if (path === undefined) throw invalid('path', '"path" is missing: expected a path relative to the deployPath')
  return path
}

/** Returns an empty list for a missing target: the first deployment creates it. */
function emptyIfMissing(error: unknown): FileEntry[] {
  if (error instanceof Refusal && error.kind === 'not_found') return []
  throw error
}

/** What a verification holds while its client does not read: the findings of a slice. */
const verifiedBytes = 512 * 1024

/** Handlers about the files that svc put into the target of a project. */
export function treeHandlers({ deployer, findProject }: ApiServices) {
  function projectIdOf(request: ApiRequest): string {
    const projectId = param(request, 'id')
    if (findProject(projectId) === undefined) throw notFound('Project', projectId)
    return projectId
  }

  return {
    summary: async request => {
      const projectId = projectIdOf(request)
      const drift = switchText(queryText(request.query, 'drift'), 'drift') ?? false
      return json(await deployer.treeSummary({ projectId, drift, signal: request.signal }))
    },

    verify: request => {
      const projectId = projectIdOf(request)
      const sums = switchText(queryText(request.query, 'sums'), 'sums') ?? false
      // A refusal before the first line is an error response.
      return ndjson(
        async (write, signal) => {
          for await (const events of deployer.verify({ projectId, sums, signal })) await write(encodeLines(events))
        },
        { heldBytes: verifiedBytes }
      )
    }
  } satisfies Record<string, Handler>
}

/** Number of files that are hashed at a time: in all, and for one caller. */
const hashedFiles = { all: 4, each: { caller: 2 } }
const hashedBytes = 256 * 1024

/**
 * Handlers about the files that svc put into a target and that were edited or removed since. The token of a project
 * gets 403 `other_project` for every other project.
 */
export async function driftHandlers({ deployer, projects, ...doors }: ApiServices) {
  const [targets, { secrets }] = await Promise.all([doors.targets(), doors.logs()])
  const hashing = createBudget({ ...hashedFiles, refuse: tooMuch })

  /** Refuses every file but an edited one at its own path: a link on the way could lead to any file of the target. */
  function inspect({ deployPath }: Project, owned: OwnedEntry, { caller, signal }: ApiRequest): Inspect {
    const named = { asked: owned.path, field: 'path' }
    return async ({ handle, path }) => {
      secrets.checkPath(join(deployPath, owned.path), named)
      if (path !== join(await realpath(deployPath), owned.path)) throw notEdited(owned.path)
      await secrets.checkOpened(handle, path, named)
      // A file of another size is edited, and need not be read.
      if ((await handle.stat()).size !== owned.size) return
      if ((await hashing.during({ caller }, 1, () => digestOf(handle, signal))) === owned.sha256)
        throw notEdited(owned.path)
    }
  }

  return {
    async drift(request) {
      const projectId = param(request, 'id')
      const isFull = switchText(queryText(request.query, 'full'), 'full') ?? false
      return json(await deployer.drift({ projectId, isFull, signal: request.signal }))
    },

    async driftFile(request) {
      const projectId = param(request, 'id')
      const project = projects.get(projectId)
      const path = queryPath(request.query, 'path')
      if (path === undefined) throw invalid('path', '"path" is missing: expected a path relative to the deployPath')
      const owned = await findOwned(deployer, projectId, path)
      const name = path.slice(path.lastIndexOf('/') + 1)
      const headers = { 'content-disposition': attachment(name), 'content-type': 'application/octet-stream' }
      return fileReply({ file: () => targets.open(project, path, inspect(project, owned, request)), headers })
    }
  } satisfies Record<string, Handler>
}

async function findOwned(deployer: Pick<Deployer, 'ownedTree'>, projectId: string, path: string): Promise<OwnedEntry> {
  const owned = await deployer.ownedTree(projectId)
  if (owned.baseline === 'owned') for await (const entry of owned.entries()) if (entry.path === path) return entry
  throw notEdited(path)
}

async function digestOf(handle: FileHandle, signal: AbortSignal): Promise<string> {
  const hash = createHash('sha256')
  for (let at = 0; ; ) {
    signal.throwIfAborted()
    const chunk = await readAt(handle, at, hashedBytes)
    if (chunk.length === 0) return hash.digest('hex')
    hash.update(chunk)
    at += chunk.length
  }
}

function notEdited(path: string): Refusal {
  const sentence = `Cannot send "${path}": it is not a file that svc put there and that was edited since`
  return new Refusal('not_found', 'not_found', sentence)
}

/** Handlers that list directories of the server, so that a user can choose a path. */
export async function fsHandlers({ logs }: ApiServices) {
  const { places } = await logs()
  return {
    home: async () => json(await places.home()),

    list: async ({ query }) => {
      const path = queryPath(query, 'path')
      if (path === undefined) throw invalid('path', '"path" is missing: expected an absolute path')
      return json(await places.list(path, queryChoice(query, 'include', inclusions) ?? 'both'))
    }
  } satisfies Record<string, Handler>
}
