import { labelFields, newLabelFields } from '../../labels.js'
import { newProjectFields, projectFields } from '../../../model/project-fields.js'
import { bulkFields, pinFields } from '../../projects.js'
import type { Label } from '../../../model/label.js'
import type { Project } from '../../../model/project.js'
import type { Variable } from '../../../model/variable.js'
import { variablesChangeFields, variablesFields } from '../../variables.js'
import { answer, any, fieldsOf, ifUpdatedAt, media, query, type Operations } from '../operation.js'
import { bulkOutcome, done, success } from '../records/common.js'
import { projectOverview } from '../records/overview.js'
import { fileContent, fileEntry, label, project, recentScripts, variable } from '../records/projects.js'
import { described, integer, list, optional, record, text, type Schema } from '../schema.js'

const oneProject = record<{ success: true; project: Project }>({ success, project })
const writtenProject = record<{ success: true; project: Project; warnings?: string[] }>({
  success,
  project,
  warnings: optional(
    described(
      'Present if fields of the request were ignored: one sentence each',
      list(text('The field "x" is unknown and was ignored'))
    )
  )
})
const message = text('The label was deleted')
const path = query('path', 'Path relative to the target, with "/" between segments')

const variableAnswer = answer(
  'The variables. The value of a secret variable is null',
  record<{ success: true; variables: Variable[] }>({
    success,
    variables: list(variable)
  })
)

const projectDescriptions = {
  ...fieldsOf(project),
  env: 'Name of the environment, for example production',
  categoryId: 'Id of the category. Null means the default category',
  tagIds: 'Ids of the tags. They replace the previous tags',
  pinned: 'Whether the overview shows the project'
}

interface Removed {
  success: true
  message: string
}

/** Projects, their variables and files, categories and tags. */
export const projectOperations: Operations = {
  'GET /api/projects': {
    summary: 'List projects',
    parameters: [query('tagIds', 'Ids of tags, separated by commas. Lists only projects that have all of them')],
    answers: answer('The projects', list(project))
  },
  'POST /api/projects': {
    summary: 'Create a project',
    body: newProjectFields,
    fields: projectDescriptions,
    answers: answer('The project, with its deploy token', writtenProject),
    errors: ['path_taken', 'not_found']
  },
  'POST /api/projects/bulk': {
    summary: 'Change or delete several projects',
    body: bulkFields,
    fields: {
      ids: 'Ids of the projects',
      action: 'The change to make',
      categoryId: 'For `setCategory`: the id of the category. Null means the default category',
      tagIds: 'For `addTags` and `removeTags`: the ids of the tags',
      allowClientScripts:
        'For `setClientScripts`: whether clients may send scripts. Null uses the setting of the server'
    },
    answers: answer(
      'The number of changed projects, and the failures',
      record<{ success: true; done: number; failed: Array<{ id: string; error: string }> }>({
        success,
        ...bulkOutcome
      })
    ),
    errors: ['not_found']
  },
  'GET /api/projects/:id': { summary: 'Get a project', answers: answer('The project', project), errors: ['not_found'] },
  'PUT /api/projects/:id': {
    summary: 'Change a project',
    description: 'Fields that are absent keep their values.',
    parameters: [ifUpdatedAt],
    body: projectFields,
    fields: projectDescriptions,
    answers: answer('The project', writtenProject),
    errors: ['not_found', 'changed_since', 'path_taken', 'deployment_running', 'maintenance_on']
  },
  'DELETE /api/projects/:id': {
    summary: 'Delete a project, its deployments and its archives',
    description: 'The files in the target directory are not deleted.',
    answers: answer('The project was deleted', done),
    errors: ['not_found', 'deployment_running']
  },
  'POST /api/projects/:id/token': {
    summary: 'Replace the deploy token of a project',
    description: 'The old token stops working immediately.',
    answers: answer(
      'The new token',
      record<{ success: true; token: string }>({ success, token: text('9c1185a5c5e9fc54612808977ee8f548') })
    ),
    errors: ['not_found']
  },
  'PUT /api/projects/:id/pin': {
    summary: 'Pin a project to the overview or unpin it',
    body: pinFields,
    fields: { pinned: 'Whether the overview shows the project' },
    answers: answer('The project', oneProject),
    errors: ['not_found']
  },
  'GET /api/projects/:id/overview': {
    summary: 'Get the live deployment, the current failure and the last deployments of a project',
    answers: answer('The overview', projectOverview),
    errors: ['not_found']
  },
  'GET /api/projects/:id/variables': {
    summary: 'List the variables of a project',
    answers: variableAnswer,
    errors: ['not_found']
  },
  'PUT /api/projects/:id/variables': {
    summary: 'Replace the variables of a project',
    description:
      'Variables that are not listed are removed. If `value` or `secret` is absent or null, the stored one is kept.',
    body: variablesFields,
    fields: { variables: 'All variables of the project' },
    answers: variableAnswer,
    errors: ['not_found', 'variables_key']
  },
  'PATCH /api/projects/:id/variables': {
    summary: 'Set and unset variables of a project',
    description:
      'Variables that are not named keep their values. `dotenv` is the text of a .env file. With `secret: true`, all variables of `dotenv` are secret.',
    body: variablesChangeFields,
    fields: {
      variables: 'Variables to set',
      unset: 'Names of variables to remove',
      dotenv: 'Text of a .env file with variables to set',
      secret: 'Whether the variables of `dotenv` are secret'
    },
    answers: variableAnswer,
    errors: ['not_found', 'variables_key']
  },
  'GET /api/projects/:id/recent-scripts': {
    summary: 'Get the scripts of the last successful deployment that ran scripts',
    answers: answer('The scripts', recentScripts),
    errors: ['not_found']
  },
  'GET /api/projects/:id/files': {
    summary: 'List a directory of the target',
    parameters: [path],
    answers: answer('The entries, directories first', list(fileEntry)),
    errors: [
      'not_found',
      'not_a_directory',
      'outside_target',
      'invalid_path',
      'not_readable',
      'helper_failed',
      'invalid_field'
    ]
  },
  'GET /api/projects/:id/file': {
    summary: 'Preview a file of the target',
    parameters: [{ ...path, required: true }],
    answers: answer('The text of the file, or the size of a binary file', fileContent as Schema<unknown>),
    errors: [
      'not_found',
      'not_a_file',
      'outside_target',
      'denied_path',
      'invalid_path',
      'not_readable',
      'changed_meanwhile',
      'helper_failed',
      'invalid_field'
    ]
  },
  'GET /api/projects/:id/download': {
    summary: 'Download a file of the target',
    description: 'Supports range requests and conditional requests (RFC 9110 §13 and §14).',
    parameters: [{ ...path, required: true }],
    answers: {
      ...media('The file', 'application/octet-stream'),
      206: { what: 'A range of the file', media: 'application/octet-stream' },
      304: { what: 'Not modified: the client already has the current file' },
      416: { what: 'The range is outside the file' }
    },
    errors: [
      'not_found',
      'not_a_file',
      'outside_target',
      'denied_path',
      'invalid_path',
      'not_readable',
      'changed_meanwhile',
      'helper_failed',
      'invalid_field'
    ]
  },
  ...labelOperations({
    kind: 'category',
    path: 'categories',
    one: any(record<{ success: true; category: Label }>({ success, category: label })),
    removed: any(record<Removed & { movedProjects: number }>({ success, message, movedProjects: integer(3) }))
  }),
  ...labelOperations({
    kind: 'tag',
    path: 'tags',
    one: any(record<{ success: true; tag: Label }>({ success, tag: label })),
    removed: any(record<Removed & { detachedProjects: number }>({ success, message, detachedProjects: integer(3) }))
  })
}

interface LabelAnswers {
  kind: 'category' | 'tag'
  path: string
  one: Schema<never>
  removed: Schema<never>
}

function labelOperations({ kind, path, one, removed }: LabelAnswers): Operations {
  return {
    [`GET /api/${path}`]: { summary: `List ${path}`, answers: answer(`The ${path}`, list(label)) },
    [`POST /api/${path}`]: {
      summary: `Create a ${kind}`,
      body: newLabelFields,
      fields: fieldsOf(label),
      answers: answer(`The ${kind}`, one),
      errors: ['name_taken']
    },
    [`PUT /api/${path}/:id`]: {
      summary: `Change a ${kind}`,
      parameters: [ifUpdatedAt],
      body: labelFields,
      fields: fieldsOf(label),
      answers: answer(`The ${kind}`, one),
      errors: ['not_found', 'name_taken', 'changed_since']
    },
    [`DELETE /api/${path}/:id`]: {
      summary: `Delete a ${kind}`,
      description:
        kind === 'category'
          ? 'Its projects move to the default category.'
          : 'Its projects are not deleted, but lose the tag.',
      answers: answer('The number of projects that had it', removed),
      errors: ['not_found']
    }
  }
}
