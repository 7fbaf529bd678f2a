import { join } from 'node:path'
import { Refusal, invalid } from '../base/refusal.js'
import { attachment, fileReply } from '../http/file.js'
import { json } from '../http/route.js'
import type { Secrets } from '../logs/secrets.js'
import type { FileEntry } from '../model/file-entry.js'
import type { Project } from '../model/project.js'
import type { Targets } from '../projects/targets.js'
import { readPreview } from '../target/browse.js'
import type { Inspect } from '../target/browse.js'
import { queryPath } from './fields.js'
import type { ApiRequest, Handler } from './route.js'
import { param } from './route.js'

interface FilesNeeds {
  projects: { get(id: string): Project }
  targets: Pick<Targets, 'list' | 'open'>
  secrets: Secrets
}

/** What lies in a project's target (§4.4), never anything outside it; what may hold secrets is listed and not shown. */
export function fileHandlers({ projects, targets, secrets }: FilesNeeds) {
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

    /** Whatever the file is, it comes as one to keep, never as a page of this origin. */
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
  if (path === undefined) throw invalid('path', '"path" is missing: the file, relative to the deployPath, is needed')
  return path
}

/** A target is made by the first deployment: until then it is empty, not missing. */
function emptyIfMissing(error: unknown): FileEntry[] {
  if (error instanceof Refusal && error.kind === 'not_found') return []
  throw error
}
