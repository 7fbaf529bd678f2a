import type { Words } from '../t.js'

/** `pages/labels.ts` */
export const words: Words = {
  'They sort the projects: the list of projects can be narrowed to each of them.': '用于整理项目：项目列表可按它们筛选。',
  'the labels': '列表',
  'Categories': '分类',
  'New category': '新建分类',
  'Change category': '修改分类',
  'No categories yet. A project is in one at most: “Customers”, “Internal”.': '还没有分类。每个项目最多属于一个分类，例如“客户”“内部”。',
  'Its projects are then in no category. Nothing else about them changes.': '其中的项目将不再属于任何分类，其余不变。',
  'Tags': '标签',
  'New tag': '新建标签',
  'Change tag': '修改标签',
  'No tags yet. A project may have several: “php”, “nightly”, “needs care”.': '还没有标签。一个项目可有多个标签，例如“php”“夜间”“需留意”。',
  'It is taken from its projects. Nothing else about them changes.': '它会从这些项目上移除，其余不变。',
  'Move {name} up': '上移 {name}',
  'Move {name} down': '下移 {name}',
  'Change {name}': '修改 {name}',
  'Delete {name}': '删除 {name}',
  'Delete {name}?': '要删除 {name} 吗？',
  'Name': '名称',
  'Colour': '颜色',
  'Create': '创建',
  'Delete': '删除',
  '{count} has it.': '{count}使用它。',
  '{count} have it.': '{count}使用它。',
  '{name} is deleted': '{name} 已删除',
  '{name} is now at place {place} of {count}': '{name} 现位于第 {place} 位，共 {count} 个'
}
