import { notice, said, type Said, css, SvcElement } from '../element.js'
import type { ShownProject as Project } from '../../../lib/model/project.js'
import type { ElementTable } from '../../pages/page.js'
import type { Labels, PlaceCalls, ProjectCalls, ProjectFields } from '../../server/project-calls.js'
import { html, type Template } from '../../dom/html.js'
import { categoryField, clientScripts, pathField } from './project-fields.js'
import {
  type Loaded,
  saveMerged,
  type SvcConflict,
  saveBar,
  field,
  type Field,
  Submission,
  submitted
} from '../base/form.js'
import { t } from '../../words/t.js'
import { errorWords, fieldLabels } from '../../words/errors.js'

/**
 * The form of a project's settings. Properties: `project`, `calls`, `places`, `labels`; `define`, registers elements
 * that are loaded late. Events: `projectchange`,
 * `unsaved`, `notice`.
 */
export class SvcProjectForm extends SvcElement {
  static override sheet = css`
    svc-project-form {
      display: block;

      form { display: grid; gap: 20px; grid-template-columns: minmax(0, 1fr); }
      .pair { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); gap: 20px; align-items: start; }
      .scripts { display: flex; flex-wrap: wrap; align-items: center; justify-content: space-between; gap: 8px 16px; padding-top: 12px; }
      @media (max-width: 719px) {
        .pair { grid-template-columns: minmax(0, 1fr); }
      }
    }
  `

  calls!: ProjectCalls
  places!: PlaceCalls
  define!: (elements: ElementTable) => void
  #project!: Project
  labels: Labels = { categories: [], tags: [] }
  #tagIds: readonly string[] | null = null
  #apps: readonly string[] = []
  readonly #submission = new Submission(this)
  #isUnsaved = false
  #isChoosing = false

  get project(): Project {
    return this.#project
  }

  /**
   * While there are unsaved changes, the form keeps the state that the reader edits; saving asks about newer values.
   */
  set project(project: Project) {
    if (!this.#isUnsaved) this.#project = project
    this.update()
  }

  protected override connected(): void {
    this.listen(window, 'beforeunload', event => {
      if (this.#isUnsaved) event.preventDefault()
    })
    // Only proposals: without them, the name is typed.
    this.calls.pm2Apps(this.signal).then(
      ({ apps }) => {
        this.#apps = apps.map(({ name }) => name)
        this.update()
      },
      () => {}
    )
  }

  protected override view(): Template {
    const project = this.#project
    const own = (name: keyof ProjectFields & string, rest: Omit<Field, 'form' | 'name' | 'value'>): Template =>
      field({
        form: 'project',
        name,
        value: String(project[name] ?? ''),
        error: this.#submission.problemOf(name),
        ...rest
      })
    return html`
      <form @submit="${(event: Event) => void this.#save(event)}" @input="${(event: Event) => this.#touched(event)}">
        <div class="pair">
          ${own('name', { label: t('Name'), isRequired: true })}
          ${own('env', { label: t('Environment'), placeholder: 'production' })}
        </div>
        ${own('description', { label: t('Description') })}
        ${pathField({
          form: 'project',
          value: project.deployPath,
          error: this.#submission.problemOf('deployPath'),
          hint: t('The next deployment writes its files there. Files of earlier deployments are not moved.'),
          calls: this.places,
          isChoosing: this.#isChoosing,
          start: this.#isChoosing ? this.#input('deployPath').value : '',
          onChoosing: isChoosing => void this.#choosing(isChoosing),
          onChosen: path => this.#chosen(path)
        })}
        <div class="pair">
          ${categoryField({ form: 'project', categories: this.labels.categories, chosen: project.categoryId })}
          ${own('pm2AppName', {
            label: t('PM2 application'),
            proposals: this.#apps,
            hint: t('Its state is shown on the project page. Leave empty if there is none.')
          })}
        </div>
        <svc-tag-choice label="${t('Tags')}" .tags="${this.labels.tags}" .chosen="${this.#tagIds ?? project.tagIds}"
          @tagchoice="${(event: Event) => this.#tagged((event as Said<'tagchoice'>).tagIds)}"></svc-tag-choice>
        <header class="scripts">
          <h2>${t('Scripts')}</h2>
          <button type="button" @click="${() => void this.#fillIn()}">${t('Copy from last deployment')}</button>
        </header>
        ${own('preDeployScript', {
          label: t('Pre-deploy script'),
          rows: 4,
          isMono: true,
          hint: t('Runs in the project directory before files are replaced. If it fails, no file is replaced.')
        })}
        ${own('postDeployScript', {
          label: t('Post-deploy script'),
          rows: 4,
          isMono: true,
          placeholder: 'systemctl restart storefront',
          hint: t(
            'Runs in the project directory after files are replaced. A script set here overrides the script of a push.'
          )
        })}
        <label class="check">
          <input type="checkbox" name="postDeployAsync" .checked="${project.postDeployAsync}">
          <span>${t('Do not wait for the post-deploy script')}</span>
        </label>
        <div class="field">
          <label for="project-client-scripts">${t('Scripts in a push')}</label>
          <select id="project-client-scripts" name="allowClientScripts">
            ${clientScripts.map(
              ({ value, allowed, words }) => html`
              <option value="${value}" .selected="${allowed === project.allowClientScripts}">${t(words)}</option>`
            )}
          </select>
        </div>
        ${field({
          form: 'project',
          name: 'allowedEnv',
          label: t('Allowed push variables'),
          value: project.allowedEnv.join(' '),
          isMono: true,
          placeholder: 'NODE_ENV APP_*',
          error: this.#submission.problemOf('allowedEnv'),
          hint: t(
            'If pushes with scripts are rejected, only these variables of a push are passed to the scripts set here. Enter names, or prefixes followed by *.'
          )
        })}
        <div class="pair">
          ${own('scriptShell', {
            label: t('Script shell'),
            isMono: true,
            placeholder: 'sh',
            proposals: ['sh', 'bash'],
            hint: t('sh, bash, or the path of a program that accepts a script with -c. Default: sh.')
          })}
          ${own('scriptTimeoutSeconds', {
            label: t('Script timeout, in seconds'),
            type: 'number',
            placeholder: '1800',
            hint: t(
              'After this time, the script is stopped and the deployment fails. If empty, the server setting applies.'
            )
          })}
        </div>
        ${own('scriptDirectory', {
          label: t('Script working directory'),
          isMono: true,
          placeholder: 'apps/web',
          hint: t(
            'Relative to the project directory, which is the default. Before the first deployment creates it, the pre-deploy script runs in the project directory.'
          )
        })}
        <header class="scripts"><h2>${t('Rights and limits')}</h2></header>
        <div class="pair">
          ${own('runAs', {
            label: t('Run as user'),
            isMono: true,
            placeholder: 'www-data',
            hint: t(
              'Scripts run and files are written with the rights of this user. Requires svc to run as root. Default: the user of svc.'
            )
          })}
          ${own('umask', {
            label: t('Umask'),
            isMono: true,
            placeholder: '027',
            hint: t(
              'Three octal digits. Applies to deployed files and to files that scripts create. Default: the umask of svc.'
            )
          })}
        </div>
        ${own('maxDiskMb', {
          label: t('Disk quota, in MB'),
          type: 'number',
          hint: t(
            'For the archives and outputs of this project. A push that exceeds it is rejected. If empty, the project has no quota.'
          )
        })}
        ${saveBar(t('Save'), {
          isBusy: this.#submission.isBusy,
          isUnsaved: this.#isUnsaved,
          problem: this.#submission.problemBeside(formFields)
        })}
      </form>
      <svc-conflict></svc-conflict>`
  }

  #input(name: string): HTMLInputElement {
    return this.querySelector(`#project-${name}`) as HTMLInputElement
  }

  #touched(event: Event): void {
    // Text typed to find a directory is not a change of the form.
    if ((event.target as Element).closest('svc-places') === null) this.#unsaved(true)
  }

  #unsaved(isUnsaved: boolean): void {
    if (isUnsaved !== this.#isUnsaved) {
      this.#isUnsaved = isUnsaved
      this.dispatchEvent(said('unsaved', { isUnsaved }))
    }
    this.update()
  }

  /** The chooser of directories is loaded when it is first opened. */
  async #choosing(isChoosing: boolean): Promise<void> {
    try {
      if (isChoosing) this.define({ 'svc-places': (await import('../base/svc-places.js')).SvcPlaces })
    } catch (error) {
      this.dispatchEvent(notice(errorWords(error), 'failed'))
      return
    }
    this.#isChoosing = isChoosing
    this.update()
    if (!isChoosing) this.#input('deployPath').focus()
  }

  #chosen(path: string): void {
    this.#input('deployPath').value = path
    this.#unsaved(true)
  }

  #tagged(tagIds: readonly string[]): void {
    this.#tagIds = tagIds
    this.#unsaved(true)
  }

  /** Copies the scripts of the last successful deployment that ran any, wherever they came from. */
  async #fillIn(): Promise<void> {
    try {
      const { deployId, preDeployScript, postDeployScript } = await this.calls.recentScripts(this.#project.id)
      if (deployId === null) {
        this.dispatchEvent(notice(t('No successful deployment has run a script yet')))
        return
      }
      this.#input('preDeployScript').value = preDeployScript
      this.#input('postDeployScript').value = postDeployScript
      this.#unsaved(true)
    } catch (error) {
      this.dispatchEvent(notice(errorWords(error), 'failed'))
    }
  }

  async #save(event: Event): Promise<void> {
    const fields = fieldsOf(submitted(event), this.#tagIds ?? this.#project.tagIds)
    await this.#submission.run(async () => {
      const project = await this.#saveMerged(fields)
      if (project === null) return
      this.#tagIds = null
      this.#unsaved(false)
      this.#project = project
      this.dispatchEvent(said('projectchange', { project }))
      this.dispatchEvent(notice(t('Saved')))
    })
  }

  #saveMerged(fields: ProjectFields): Promise<Project | null> {
    const { id } = this.#project
    const loaded = (project: Project): Loaded<Project> => ({
      values: { ...project },
      tag: project.updatedAt,
      state: project
    })
    return saveMerged({
      base: loaded(this.#project),
      mine: { ...fields },
      send: (changes, tag) => this.calls.update(id, changes as ProjectFields, tag),
      keep: theirs => theirs,
      load: async () => loaded(await this.calls.get(id)),
      choose: conflicts =>
        (this.querySelector('svc-conflict') as SvcConflict).ask(
          conflicts.map(({ name, mine, theirs }) => ({
            name,
            label: t(fieldLabels[name] ?? 'Do not wait for the post-deploy script'),
            mine: this.#shown(name, mine),
            theirs: this.#shown(name, theirs)
          }))
        )
    })
  }

  /** Returns the value of a field as the form shows it. */
  #shown(name: string, value: unknown): string {
    const { categories, tags } = this.labels
    const nameOf = (labels: Labels['tags'], id: unknown): string =>
      labels.find(label => label.id === id)?.name ?? String(id ?? '')
    if (name === 'categoryId') return nameOf(categories, value)
    if (name === 'tagIds') return (value as string[]).map(id => nameOf(tags, id)).join(', ')
    if (name === 'allowClientScripts') return t(clientScripts.find(({ allowed }) => allowed === value)?.words ?? '')
    if (typeof value === 'boolean') return value ? t('On') : t('Off')
    return Array.isArray(value) ? value.join(' ') : String(value ?? '')
  }
}

const formFields = [
  'name',
  'env',
  'description',
  'deployPath',
  'pm2AppName',
  'preDeployScript',
  'postDeployScript',
  'allowedEnv',
  'runAs',
  'umask',
  'maxDiskMb',
  'scriptTimeoutSeconds',
  'scriptShell',
  'scriptDirectory'
]

function fieldsOf(values: Record<string, string>, tagIds: readonly string[]): ProjectFields {
  const value = (name: string): string => values[name] ?? ''
  const env = value('env').trim()
  return {
    name: value('name').trim(),
    description: value('description').trim(),
    deployPath: value('deployPath').trim(),
    ...(env === '' ? {} : { env }),
    categoryId: value('categoryId'),
    tagIds: [...tagIds],
    pm2AppName: value('pm2AppName').trim(),
    // The text of a form has CRLF line ends, which a shell does not accept.
    preDeployScript: value('preDeployScript').replaceAll('\r\n', '\n'),
    postDeployScript: value('postDeployScript').replaceAll('\r\n', '\n'),
    postDeployAsync: values['postDeployAsync'] !== undefined,
    allowClientScripts: clientScripts.find(each => each.value === value('allowClientScripts'))?.allowed ?? null,
    allowedEnv: value('allowedEnv')
      .split(/[\s,]+/)
      .filter(Boolean),
    runAs: value('runAs').trim(),
    umask: value('umask').trim(),
    scriptTimeoutSeconds: value('scriptTimeoutSeconds').trim() === '' ? null : Number(value('scriptTimeoutSeconds')),
    scriptShell: value('scriptShell').trim(),
    scriptDirectory: value('scriptDirectory').trim(),
    maxDiskMb: value('maxDiskMb').trim() === '' ? null : Number(value('maxDiskMb'))
  }
}
