import type { Words } from '../t.js'

/** Texts of `pages/projects.ts`. */
export const words: Words = {
  'the projects': '项目列表',
  View: '视图',
  List: '列表',
  'Nothing in place': '尚无内容',
  Environments: '环境对照',
  'same files as {env}': '与 {env} 的文件相同',
  '1 release behind {env}': '比 {env} 落后 1 个发布',
  '{count} releases behind {env}': '比 {env} 落后 {count} 个发布',
  '1 release ahead of {env}': '比 {env} 领先 1 个发布',
  '{count} releases ahead of {env}': '比 {env} 领先 {count} 个发布',
  'other files than {env}, {time} older': '与 {env} 的文件不同，早 {time}',
  'other files than {env}, {time} newer': '与 {env} 的文件不同，晚 {time}',
  'on {count} of {all} nodes': '在 {all} 个节点中的 {count} 个上',
  'Promote to {env}…': '提升到 {env}…',
  'No application has several projects': '没有包含多个项目的应用',
  'Projects are shown side by side if their names differ only in the environment, such as shop and shop-staging, or if they have a common tag, such as app:shop.':
    '名称只在环境上不同的项目（例如 shop 和 shop-staging），或有共同标签（例如 app:shop）的项目，会并排显示。',
  'No projects yet': '还没有项目',
  'A project is a directory on this server, with scripts that run before and after each deployment.':
    '项目是此服务器上的一个目录，以及文件到达前后运行的脚本。',
  'Nothing found': '没有找到',
  'None of {projects} matches the filter.': '{projects}中没有符合条件的。',
  'All categories': '所有分类',
  'Tags: {count}': '标签：{count}',
  'All environments': '所有环境',
  Status: '状态',
  'Every status': '所有状态',
  Order: '排序',
  'Last deployment': '最近部署',
  Newest: '最新创建',
  Groups: '分组',
  'No groups': '不分组',
  'By environment': '按环境',
  'By category': '按分类',
  'Pin {name}': '置顶 {name}',
  'Pin to the top': '置顶',
  'Pinned to the top': '已置顶',
  Tag: '添加标签',
  Untag: '移除标签',
  'Delete…': '删除…',
  'Delete {projects}?': '删除{projects}？',
  'Delete {projects}': '删除{projects}',
  'Their deployments, output and archives are permanently deleted. The files in their directories stay.':
    '其部署记录、输出和压缩包将永久丢失，目录中的文件会保留。',
  'The text does not match. Type “{name}”.': '输入不符：请输入“{name}”。',
  'Tagged: {projects}': '已添加标签：{projects}',
  'Untagged: {projects}': '已移除标签：{projects}',
  'Category set: {projects}': '已设置分类：{projects}',
  'Client scripts set: {projects}': '已设置推送携带的脚本：{projects}',
  'Deleted: {projects}': '已删除：{projects}',
  'Absolute path. The first deployment creates the directory if it does not exist.':
    '绝对路径。若不存在，首次部署时会创建。',
  'A system user for this project only. Without one, its deployments run commands as root.':
    '仅供此项目使用的系统用户。若留空，部署时的命令将以 root 身份运行。',
  'On the server, as root, this creates the user and the project:':
    '在服务器上以 root 身份运行，即可创建该用户和项目：',
  'Creating…': '正在创建…',
  'Create project': '创建项目'
}
